from math import inf

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from randomness import maps
from torch import Tensor
from torch.testing import assert_close

from shiftmatch.core.distance import NEGLIGIBLE, shift, site_shift
from shiftmatch.core.moments import Moments
from shiftmatch.core.spectrum import Spectrum
from shiftmatch.errors import NonFiniteError

SPREAD = torch.randn(1, 4, 1, 500, generator=torch.Generator().manual_seed(0)).double()


@given(st.floats(-5, 5), st.floats(0.1, 5))
def test_moved_and_stretched_features_are_as_far_as_the_formula_says(offset: float, scale: float) -> None:
    train, test = Moments.of(SPREAD), Moments.of(scale * (SPREAD - SPREAD.mean(-1, keepdim=True)) + offset)
    mean = (offset - train.mean).square().sum()
    spread = train.covariance.diagonal(dim1=-2, dim2=-1).sum()
    expected = ((mean + (scale - 1) ** 2 * spread) / spread).sqrt()
    assert_close(shift(test, train), float(expected), rtol=1e-5, atol=1e-5)


def test_it_is_symmetric_but_for_the_unit() -> None:
    mixed = Moments.of(torch.einsum("ij,gjkn->gikn", torch.randn(4, 4).double(), SPREAD))
    train = Moments.of(SPREAD)
    unit, other = (m.covariance.diagonal(dim1=-2, dim2=-1).sum().sqrt() for m in (train, mixed))
    assert_close(shift(mixed, train) * float(unit), shift(train, mixed) * float(other), rtol=1e-5, atol=1e-5)
    assert shift(train, train) < 1e-6


def test_constant_groups_do_no_harm() -> None:
    dead = torch.cat([SPREAD, torch.ones_like(SPREAD)])
    assert shift(Moments.of(dead), Moments.of(dead)) < 1e-6


def spectrum_of(x: Tensor) -> Moments:
    return Spectrum().measure(x)[0]


def test_all_three_distances_as_one() -> None:
    found = site_shift(maps(50, 2, 8, 8, seed=1, scale=2.0), spectrum_of(maps(200, 2, 8, 8)), 50)
    assert_close(found.size**2, sum(d.value**2 for d in (found.mean, found.variance, found.spectrum)))


def test_features_that_are_not_finite_have_no_distance() -> None:
    x = maps(50, 2, 8, 8)
    x[3, 1, 2, 2] = float("inf")
    with pytest.raises(NonFiniteError):
        site_shift(x, spectrum_of(maps(200, 2, 8, 8)), 50)


def test_images_that_do_not_vary_are_outside_unless_nothing_has_moved() -> None:
    x = maps(200, 3)
    train = spectrum_of(x)
    for moved, expected in ((0.0, (NEGLIGIBLE, 0.0)), (1.0, (NEGLIGIBLE, inf))):
        same = (x.mean(0) + moved).expand(16, -1)  # the mean of sixteen equal numbers is exact
        found = site_shift(same, train, 16).mean
        assert (found.limit, found.score) == expected
        assert found.inside == (moved == 0)


def test_without_space_the_variance_is_that_over_images() -> None:
    x, train = maps(200, 3, seed=1), maps(2000, 3)
    found = site_shift(2 * x, spectrum_of(train), 200)
    assert not found.variance.inside
    assert site_shift(x, spectrum_of(train), 200).variance.inside
    expected = (2 * x).var(0, correction=0).log() - train.var(0, correction=0).log()
    assert_close(found.gain[:, 0], expected, rtol=1e-2, atol=1e-2)
    assert (found.spectrum.value, len(found.frequency)) == (0.0, 1)


def test_windows_of_an_image_count_as_one_image() -> None:
    train, x = spectrum_of(maps(200, 2, 8, 8)), maps(50, 2, 8, 8, seed=1, scale=1.5)
    once, four_times = site_shift(x, train, 50), site_shift(x.repeat_interleave(4, 0), train, 50)
    for one, four in zip(once, four_times, strict=True):
        assert_close(four, one)
    alone = site_shift(x.repeat_interleave(4, 0), train, 200)
    assert alone.variance.limit < once.variance.limit, "as images of their own they would tell more than they do"
