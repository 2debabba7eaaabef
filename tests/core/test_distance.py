import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from shiftmatch.core.distance import shift
from shiftmatch.core.moments import Moments

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
