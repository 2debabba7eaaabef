from functools import reduce
from operator import add

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from randomness import randn
from references import slow
from torch.testing import assert_close

from shiftmatch.core.moments import Moments, shrink


def test_moments_equal_the_obvious_ones() -> None:
    x = randn(3, 4, 1, 50)
    moments = Moments.of(x)
    for group in range(3):
        mean, covariance = slow.moments(x[group, :, 0].T.numpy())
        np.testing.assert_allclose(moments.mean[group, :, 0], mean, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(moments.covariance[group], covariance, rtol=1e-12, atol=1e-12)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=8), st.sampled_from([0.0, 1e3, -1e6]))
def test_moments_do_not_depend_on_the_batching(sizes: list[int], shift: float) -> None:
    x = randn(2, 3, 2, sum(sizes)) + shift
    whole, streamed = Moments.of(x), reduce(add, map(Moments.of, x.split(sizes, dim=-1)))
    assert streamed.count == whole.count
    assert_close(streamed.mean, whole.mean, rtol=1e-10, atol=1e-10)
    assert_close(streamed.scatter, whole.scatter, rtol=1e-10, atol=1e-10 * max(1.0, abs(shift)))


@given(st.permutations([2, 5, 11, 3]))
def test_merging_in_any_order_gives_the_same(sizes: list[int]) -> None:
    parts = [Moments.of(randn(4, 1, size, seed=size)) for size in sizes]
    ordered = [Moments.of(randn(4, 1, size, seed=size)) for size in sorted(sizes)]
    assert_close(reduce(add, parts).scatter, reduce(add, ordered).scatter, rtol=1e-10, atol=1e-10)


def test_columns_share_a_scatter_and_keep_their_means() -> None:
    x = randn(3, 2, 40)
    moments = Moments.of(x)
    each = [Moments.of(x[:, [column]]) for column in range(2)]
    assert_close(moments.mean, torch.cat([part.mean for part in each], dim=-1))
    assert_close(moments.scatter, each[0].scatter + each[1].scatter)


def test_a_huge_offset_costs_no_accuracy() -> None:
    x = torch.tensor([[[1.0, 2.0, 3.0]]], dtype=torch.float32) + 2**20
    assert Moments.of(x).covariance.item() == 2 / 3


def test_constant_features_have_no_variance_at_all() -> None:
    moments = Moments.of(torch.full((5, 1, 1, 997), 0.1))
    assert (moments.variance >= 0).all()
    assert (moments.variance < (0.1 * torch.finfo(torch.float32).eps) ** 2).all()


def test_shrinking_goes_from_test_to_training() -> None:
    test, train = Moments.of(randn(3, 1, 20)), Moments.of(randn(3, 1, 70, seed=1))
    assert shrink(test, train, 0.0) is test
    assert_close(shrink(test, train, 1.0).covariance, train.covariance)
    assert_close(shrink(test, train, 0.25).mean, 0.75 * test.mean + 0.25 * train.mean)
    assert_close(shrink(test, train, 0.25).covariance, 0.75 * test.covariance + 0.25 * train.covariance)
