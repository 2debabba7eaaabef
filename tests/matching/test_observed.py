"""What a pass shows of the features, and that a pass that nobody asks about shows nothing."""

import pytest
import torch
from networks import InPlaceNet
from randomness import maps
from torch.testing import assert_close

import shiftmatch as sm
from shiftmatch.matching.inputs import Inputs
from shiftmatch.matching.observed import PlainModel, _by_image, observable, observed

IMAGES = 400


def test_clean_batches_are_within_sampling_error_and_shifted_ones_are_not(
    net: InPlaceNet, statistics: sm.Statistics
) -> None:
    plain = PlainModel(net, statistics)

    def unshifted(x: torch.Tensor) -> bool:
        return observed(plain, Inputs((x,)))[1].unshifted(IMAGES)

    clean = [maps(100, 3, 8, 8, seed=seed) for seed in range(1, 21)]
    assert sum(map(unshifted, clean)) >= 19
    assert not any(unshifted(x + 0.5) or unshifted(1.5 * x) for x in clean)


def test_a_plain_pass_says_what_the_network_says(net: InPlaceNet, statistics: sm.Statistics) -> None:
    x = maps(50, 3, 8, 8, seed=1)
    log_p, seen = observed(PlainModel(net, statistics), Inputs((x,)))
    assert_close(log_p, net(x).log_softmax(-1))
    assert (seen.images, len(seen.parts)) == (50, len(statistics))
    assert_close(seen.parts[0].mean, x.mean((2, 3)))
    assert_close(seen.parts[0].variance, x.var((2, 3), correction=0))


def test_features_are_seen_before_they_are_matched(net: InPlaceNet, statistics: sm.Statistics) -> None:
    x = 2 * maps(50, 3, 8, 8, seed=1)
    _, seen = observed(observable(sm.match(net, statistics)), Inputs((x,)))
    assert_close(seen.parts[0].variance, x.var((2, 3), correction=0))
    assert seen.distance > observed(PlainModel(net, statistics), Inputs((x / 2,)))[1].distance


def test_no_images_are_not_unshifted(net: InPlaceNet, statistics: sm.Statistics) -> None:
    for images in (0, 1):
        _, seen = observed(PlainModel(net, statistics), Inputs((maps(images, 3, 8, 8),)))
        assert not seen.unshifted(IMAGES)
        assert seen.distance >= 0


def test_windows_count_as_their_image() -> None:
    x = maps(6, 3, 4, 8)
    windows = x.unflatten(3, (2, 4)).movedim(3, 1).flatten(0, 1)
    mean, variance = _by_image((windows.mean((2, 3)), windows.var((2, 3), correction=0)), 6)
    assert_close(mean, x.mean((2, 3)))
    assert_close(variance, x.var((2, 3), correction=0))


@pytest.mark.parametrize("dead", [0.0, 1e-9])
def test_a_constant_channel_is_not_a_shift(net: InPlaceNet, dead: float) -> None:
    x = maps(500, 3, 8, 8)
    x[:, 1] *= dead
    found = sm.fit(net, x[:400], progress=False)
    assert observed(PlainModel(net, found), Inputs((x[400:],)))[1].unshifted(IMAGES)
