"""Our corruptions agree with the published generators: by pixel, in distribution, and for a network."""

import numpy as np
import pytest

from fidelity import AGREEING, TOLERANCE, Case, agreement, cases, deviation
from references.cifar_resnet import accuracy, cifar_test, resnet20
from references.published_accuracy import IMAGES, POINTS, PUBLISHED
from shared_data import DATA, SHARED, needs_data, needs_shared
from shiftmatch.corruptions import PAPER, corrupt, frost_source

SEEDS = range(6)
SPREADS = 3.5
"""A reference is one draw itself: it may lie this many standard deviations from the mean of our draws."""


@needs_shared
@pytest.mark.parametrize("case", list(cases(random=False)), ids=str)
def test_a_corruption_without_randomness_agrees_pixel_by_pixel(case: Case) -> None:
    assert agreement(*case) >= AGREEING


@needs_shared
@pytest.mark.parametrize("case", list(cases(random=True, suites=("cifar10-c", "mnist-c"))), ids=str)
def test_a_random_corruption_agrees_in_mean_variance_and_spectrum(case: Case) -> None:
    gap, spread = deviation(*case, SEEDS)
    assert np.all(gap <= np.maximum(TOLERANCE, SPREADS * spread)), (gap, spread)


@needs_shared
@needs_data("cifar-10-batches-bin")
def test_a_network_is_as_accurate_as_on_the_published_corruptions() -> None:
    model = resnet20(SHARED / "weights" / "resnet20.safetensors")
    images, labels = cifar_test(DATA / "cifar-10-batches-bin", IMAGES)
    measured = {name: accuracy(model, corrupt(images, name, severity=5), labels) for name in PAPER}
    assert measured == pytest.approx(PUBLISHED, abs=POINTS), frost_source()
