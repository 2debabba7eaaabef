from math import inf

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, norm

from shiftmatch.errors import InputError
from shiftmatch.metrics.uncertainty import (
    MAX_EXACT,
    bootstrap_interval,
    mcnemar,
    mean_standard_error,
    paired_difference,
    standard_error,
    wilson_interval,
)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.5, 0.999))
def test_wilson_is_that_of_scipy(counts: tuple[int, int], level: float) -> None:
    theirs = binomtest(*counts).proportion_ci(level, method="wilson")
    assert wilson_interval(*counts, level) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@given(st.integers(0, 200), st.integers(0, 200))
def test_mcnemar_is_the_binomial_test_of_scipy(wins: int, losses: int) -> None:
    theirs = binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert mcnemar(wins, losses) == pytest.approx(theirs, abs=1e-12)


def test_beyond_the_exact_one_mcnemar_hardly_changes() -> None:
    wins, losses = 450, MAX_EXACT + 1 - 450
    assert mcnemar(wins, losses) == pytest.approx(binomtest(wins, wins + losses).pvalue, rel=1e-2)
    assert mcnemar(5000, 5000) == 1


def test_right_or_wrong_is_compared_by_the_images_that_differ() -> None:
    a, b = torch.tensor([1, 1, 1, 0, 0] * 20).bool(), torch.tensor([1, 0, 1, 0, 1] * 20).bool()
    found = paired_difference(a[:95], b[:95])
    assert found.mean == 0
    assert found.p_value == 1
    gaps = a[:95].double() - b[:95].double()
    assert found.stderr == pytest.approx(gaps.std(correction=0).item() / 95**0.5)
    assert -found.low == pytest.approx(found.high)


def test_methods_that_never_differ_may_still_differ_elsewhere() -> None:
    found = paired_difference([True] * 100, [True] * 100)
    assert (found.mean, found.stderr, found.p_value) == (0, 0, 1)
    assert -0.05 < found.low < 0 < found.high < 0.05


def test_numbers_are_compared_by_their_mean_difference() -> None:
    draws = np.random.default_rng(0)
    base = draws.normal(size=400)
    found = paired_difference(base + draws.normal(0.05, 0.5, size=400), base)
    z = found.mean / found.stderr
    assert found.stderr == pytest.approx(0.025, rel=0.1)  # pairing removes the spread of 1 that both have
    assert found.p_value == pytest.approx(2 * norm.sf(abs(z)))
    assert (found.low + found.high) / 2 == pytest.approx(found.mean)
    assert paired_difference(base, base)[:2] == (0, 0)


def test_cells_of_the_same_images_are_averaged_first() -> None:
    draws = np.random.default_rng(1)
    a, b = draws.random((2, 3, 50)) < 0.7
    found, by_hand = paired_difference(a, b), paired_difference(a.mean(0), b.mean(0))
    assert found == pytest.approx(by_hand)
    assert paired_difference(a[:1], b[:1]) == paired_difference(a[0], b[0])


def test_one_image_says_nothing_about_numbers() -> None:
    for one, other in (([0.3], [0.1]), ([[True], [True]], [[False], [True]])):
        found = paired_difference(one, other)
        assert (found.low, found.high, found.p_value) == (-inf, inf, 1)


def test_the_interval_of_a_difference_covers_it() -> None:
    """Of 500 comparisons of classifiers with a known difference, about 95 % cover it, and 5 % of equal ones differ."""
    draws = np.random.default_rng(2)
    covered, differ = 0, 0
    for _ in range(500):
        hard = draws.random(200)  # shared by both, so that they are correlated
        a, b, c = (hard < share + 0.3 * (draws.random(200) - 0.5) for share in (0.7, 0.6, 0.6))
        covered += (found := paired_difference(a, b)).low < 0.1 < found.high
        differ += paired_difference(b, c).p_value < 0.05
    assert 0.92 < covered / 500 < 0.985
    assert differ / 500 < 0.07


def test_the_error_of_a_mean_over_cells_is_that_of_the_mean_of_each_image() -> None:
    draws = np.random.default_rng(3)
    one = draws.random(1000)
    assert mean_standard_error([one, one, one]) == pytest.approx(standard_error(one))
    apart = [draws.random(1000) for _ in range(4)]
    assert mean_standard_error(apart) == pytest.approx((1 / 12 / 1000 / 4) ** 0.5, rel=0.05)
    assert standard_error([3.0]) is None


def test_the_bootstrap_of_a_mean_is_close_to_normal() -> None:
    values = np.random.default_rng(4).normal(2, 1, size=500)
    low, high = bootstrap_interval(values, level=0.9)
    assert (low + high) / 2 == pytest.approx(values.mean(), abs=0.01)
    assert high - low == pytest.approx(2 * 1.645 / 500**0.5, rel=0.1)
    assert bootstrap_interval(values) == bootstrap_interval(values)
    rows = np.stack([values, values], axis=1)
    assert bootstrap_interval(rows, lambda v: float((v[:, 0] - v[:, 1]).mean())) == (0, 0)


def test_mistakes_are_answered_in_words() -> None:
    with pytest.raises(InputError, match="11 of 10"):
        wilson_interval(11, 10)
    with pytest.raises(InputError, match="between 0 and 1"):
        wilson_interval(1, 10, level=95.0)
    with pytest.raises(InputError, match=r"the same images; got the shapes \(2,\) and \(3,\)"):
        paired_difference([True, False], [True] * 3)
    with pytest.raises(InputError, match="finite numbers"):
        bootstrap_interval([])
    with pytest.raises(InputError, match="1 NaN"):
        standard_error([1.0, float("nan")])
    with pytest.raises(InputError, match="cells of the same images"):
        mean_standard_error([[1.0], [1.0, 2.0]])
