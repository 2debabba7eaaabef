import torch

from shiftmatch.corruptions.edges import _grow, canny, canny_integer

SQUARE = torch.zeros(1, 24, 24)
SQUARE[:, 8:16, 8:16] = 1


def test_the_edges_of_a_square_surround_it() -> None:
    edges = canny(SQUARE, 1.0, 0.1, 0.2)
    assert edges[0, 12].nonzero().flatten().tolist() in ([7, 16], [8, 15], [7, 8, 15, 16])
    assert not edges[0, 10:14, 10:14].any()
    assert not edges[0, :5].any()


def test_integer_edges_of_a_square_surround_it() -> None:
    edges = canny_integer(SQUARE * 255, 50, 150)
    assert edges[0, 12].sum() == 2
    assert not edges[0, 10:14, 10:14].any()


def test_a_flat_image_has_no_edges() -> None:
    flat = torch.full((1, 24, 24), 0.5)
    assert not canny(flat, 1.0, 0.1, 0.2).any()
    assert not canny_integer(flat * 255, 50, 150).any()


def test_weak_edges_stay_only_where_they_reach_a_strong_one() -> None:
    weak = torch.tensor([[[1, 1, 0, 0, 1], [0, 0, 1, 0, 1], [0, 0, 0, 0, 0]]], dtype=torch.bool)
    seed = torch.zeros_like(weak)
    seed[0, 0, 0] = True
    assert _grow(seed, weak).nonzero()[:, 1:].tolist() == [[0, 0], [0, 1], [1, 2]]
