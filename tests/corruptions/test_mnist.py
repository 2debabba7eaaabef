import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from shiftmatch.corruptions import mnist
from shiftmatch.corruptions.randomness import Streams

LEVELS = torch.randint(0, 256, (5, 1, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
X = LEVELS / 255
STREAMS = Streams.of(LEVELS, "mnist")


def swapped_one_by_one(x: Tensor, shifts: Tensor, reach: int) -> Tensor:
    x, (height, width) = x.clone(), x.shape[-2:]
    for b in range(len(x)):
        for row in range(height - reach, reach, -1):
            for col in range(width - reach, reach, -1):
                down, right = shifts[b, :, row, col].tolist()
                here = x[b, :, row, col].clone()
                x[b, :, row, col] = x[b, :, row + down, col + right]
                x[b, :, row + down, col + right] = here
    return x


@pytest.mark.parametrize("reach", [1, 3])
def test_swapping_in_batches_equals_swapping_image_by_image(reach: int) -> None:
    shifts = torch.randint(-reach, reach, (5, 2, 28, 28), generator=torch.Generator().manual_seed(1))
    assert torch.equal(mnist._swap_neighbours(X, shifts, reach), swapped_one_by_one(X, shifts, reach))


def test_a_translation_moves_every_pixel_by_whole_steps() -> None:
    moved = mnist.translate(X, STREAMS, 3)
    for before, after in zip(X, moved, strict=True):
        shifts = [(down, right) for down in (-3, 3) for right in (-3, 3)]
        inner = [torch.equal(after[:, 3:-3, 3:-3], before.roll(s, (1, 2))[:, 3:-3, 3:-3]) for s in shifts]
        assert sum(inner) == 1


def test_a_quarter_turn_is_exact() -> None:
    turned = mnist.rotate(X, STREAMS, torch.pi / 2)
    for before, after in zip(X, turned, strict=True):
        gaps = [(after - before.rot90(k, (1, 2))).abs().max() for k in (1, -1)]
        assert min(gaps) < 1e-4


def test_shrinking_and_shearing_keep_the_centre() -> None:
    dot = torch.zeros(1, 1, 29, 29)
    dot[..., 14, 14] = 1
    stream = Streams.of(torch.zeros(1, 1, 1, 1, dtype=torch.uint8), "dot")
    assert mnist.scale(dot, 0.5)[0, 0, 14, 14] == 1
    assert_close(mnist.shear(dot, stream, 0.4)[0, 0, 14, 14], torch.tensor(1.0))


def test_stripes_invert_the_outer_quarters() -> None:
    striped = mnist.stripe(X)
    assert torch.equal(striped[..., 7:21], X[..., 7:21])
    assert torch.equal(striped[..., :7], 1 - X[..., :7])
    assert torch.equal(striped[..., 21:], 1 - X[..., 21:])


def test_edges_are_black_and_white() -> None:
    assert set(mnist.canny_edges(X).flatten().tolist()) <= {0.0, 1.0}
