"""Our corruptions agree with the published generators: by pixel, in distribution, and for a network."""

import numpy as np
import pytest
import torch
from fidelity import AGREEING, GREY_LEVELS, TOLERANCE, Case, agreement, cases, clean, deviation, reference
from references.published_accuracy import IMAGES, POINTS, PUBLISHED
from released import accuracy, cifar, resnet20
from shared_data import needs_data, needs_shared

from shiftmatch.corruptions import PAPER, SUITES, corrupt
from shiftmatch.corruptions.blur import directional_blur

SEEDS = range(6)
SPREADS = 3.5
"""A reference is one draw itself: it may lie this many standard deviations from the mean of our draws."""


@needs_shared
@pytest.mark.parametrize("case", list(cases(random=False)), ids=str)
def test_a_corruption_without_randomness_agrees_pixel_by_pixel(case: Case) -> None:
    assert agreement(*case) >= AGREEING


@needs_shared
@pytest.mark.parametrize("case", list(cases(random=True)), ids=str)
def test_a_random_corruption_agrees_in_mean_variance_and_spectrum(case: Case) -> None:
    gap, spread = deviation(*case, SEEDS)
    # The reference of ImageNet-C has two images, too few for a spectrum.
    compared = slice(2) if case[0] == "imagenet-c" else slice(None)
    assert np.all(gap[compared] <= np.maximum(TOLERANCE, SPREADS * spread[compared])), (gap, spread)


@needs_shared
@pytest.mark.parametrize(("suite", "severity"), [("cifar10-c", 1), ("cifar10-c", 5), ("mnist-c", None)])
def test_published_motion_blur_is_ours_at_some_angle(suite: str, severity: int | None) -> None:
    degrees = torch.arange(-45, 45.1, 0.25)
    level = SUITES[suite].corruptions["motion_blur"].level(severity)
    for image, published in zip(clean(suite)[:4], reference(suite, "motion_blur", severity)[:4], strict=True):
        ours = directional_blur((image / 255).expand(len(degrees), -1, -1, -1), degrees, *level) * 255
        agreeing = ((ours - published).abs() <= GREY_LEVELS).float().mean((1, 2, 3))
        assert agreeing.max() >= AGREEING


@needs_shared
@needs_data("cifar-10-batches-bin")
@pytest.mark.parametrize("name", [name for name in PAPER if SUITES["cifar10-c"].corruptions[name].random])
def test_a_network_is_as_accurate_as_on_the_published_corruption(name: str) -> None:
    images, labels = cifar("test", IMAGES)
    corrupted = corrupt(images, name, severity=5)
    assert accuracy(resnet20(), corrupted, labels, batch=250) == pytest.approx(PUBLISHED[name], abs=POINTS)
