import torch
from hypothesis import given
from hypothesis import strategies as st

from shiftmatch.corruptions.randomness import Streams

IMAGES = torch.randint(0, 256, (6, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@given(st.permutations(range(6)))
def test_a_stream_follows_its_image_through_any_order(order: list[int]) -> None:
    there = Streams.of(IMAGES, "key").normal(4)
    assert torch.equal(Streams.of(IMAGES[order], "key").normal(4), there[order])


def test_key_and_content_both_change_the_stream() -> None:
    draws = Streams.of(IMAGES, 0, "fog").uniform(0, 1, 3)
    assert not torch.equal(draws, Streams.of(IMAGES, 1, "fog").uniform(0, 1, 3))
    assert len(set(draws.flatten().tolist())) == draws.numel()


def test_draws_have_their_distributions() -> None:
    streams = Streams.of(IMAGES, "moments")
    normal = streams.normal(100, 100, loc=2.0, scale=3.0)
    assert abs(normal.mean().item() - 2) < 0.05
    assert abs(normal.std().item() - 3) < 0.05
    assert set(streams.integers(-2, 2, 500).flatten().tolist()) == {-2, -1, 0, 1}
    assert set(streams.signs(50).flatten().tolist()) == {-1.0, 1.0}
    counts = streams.poisson(torch.full((6, 5_000), 7.0))
    assert abs(counts.mean().item() - 7) < 0.1
    assert abs(counts.var().item() - 7) < 0.3
