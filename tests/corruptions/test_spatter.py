import torch

from shiftmatch.corruptions.randomness import Streams
from shiftmatch.corruptions.spatter import GREY_MUD, MUD, _equalise, mud, spatter

X = torch.full((4, 3, 48, 48), 0.6)
STREAMS = Streams.of(torch.arange(4, dtype=torch.uint8).reshape(4, 1, 1, 1), "spatter")


def test_water_only_adds_light() -> None:
    wet = spatter(X, STREAMS, 0.65, 0.3, 1, 0.69, 0.5, 0)
    assert torch.all(wet >= X)
    assert 0 < (wet > X).float().mean() < 0.6


def test_mud_lies_between_the_image_and_the_colour_of_mud() -> None:
    muddy = spatter(X, STREAMS, 0.67, 0.4, 1, 0.65, 1.5, 1)
    for channel, colour in enumerate(MUD):
        assert muddy[:, channel].min() >= colour - 1e-6
    assert (muddy == X).any()
    assert (muddy < X).any()
    grey = mud(X[:, :1], STREAMS, 0.67, 0.4, 1, 0.65, 1.5)
    assert grey.min() >= GREY_MUD - 1e-6


def test_equalising_spreads_levels_from_black_to_white() -> None:
    levels = torch.tensor([[[3.0, 3.0, 5.0, 9.0]]])
    assert _equalise(levels).tolist() == [[[0.0, 0.0, 128.0, 255.0]]]
    assert len(set(_equalise(torch.full((1, 2, 2), 7.0)).flatten().tolist())) == 1
