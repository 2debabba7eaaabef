"""How sure a number is: intervals, standard errors, and paired comparisons on the same images."""

from collections.abc import Callable, Sequence
from math import comb, fsum, inf, sqrt
from statistics import NormalDist
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiftmatch.errors import InputError

RESAMPLES = 1000
"""Of the bootstrap."""

MAX_EXACT = 1000
"""Up to so many images on which two methods differ, McNemar's test adds the binomial up; beyond, it is normal."""

Values: TypeAlias = NDArray[np.float64]
Statistic: TypeAlias = Callable[[Values], float]


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


class Difference(NamedTuple):
    """How much better one method is than another on the same images: mean, standard error, interval and p-value."""

    mean: float
    stderr: float
    low: float
    high: float
    p_value: float


def wilson_interval(successes: float | int, n: int, level: float = 0.95) -> Interval:
    """Wilson's interval for a share of `n`: (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n).

    Unlike p ± z √(p(1−p)/n) it stays between 0 and 1, and has a width where all or none succeed.

    Args:
        successes: how many succeeded.
        n: of how many.
        level: how often such intervals hold the true share.

    >>> wilson_interval(10, 10)
    Interval(low=0.722..., high=1.0)
    """
    if n < 1 or not 0 <= successes <= n:
        raise InputError(f"Expected from 0 to n successes among n images, at least one; got {successes} of {n}.")
    share, z = successes / n, _quantile(level)
    centre = share + z * z / (2 * n)
    half = z * sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2)
    low, high = ((centre + side * half) / (1 + z * z / n) for side in (-1, 1))
    return Interval(0.0 if successes == 0 else low, 1.0 if successes == n else high)


def bootstrap_interval(
    values: ArrayLike,
    statistic: Statistic = lambda values: float(values.mean()),
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """The middle `level` of a statistic of `values`, drawn anew with replacement (percentile bootstrap).

    Args:
        values: one entry for each image; of an array of several axes, entries of the first are drawn.
        statistic: a function of such an array; the mean unless given.
        level: how often such intervals hold the true value.
        resamples: how often the values are drawn anew.
        seed: fixes the draws.

    >>> bootstrap_interval([0.0, 1.0] * 50)
    Interval(low=0.4..., high=0.6)
    """
    found, data = np.empty(resamples), _values(values)
    draws = np.random.default_rng(seed)
    for number in range(resamples):
        found[number] = statistic(data[draws.integers(len(data), size=len(data))])
    tail = (1 - _checked_level(level)) / 2
    return Interval(*np.quantile(found, [tail, 1 - tail]).tolist())


def standard_error(values: ArrayLike) -> float | None:
    """Of the mean of independent values: √(Σ (v − v̄)² / (n (n − 1))); None for a single one.

    >>> standard_error([1.0, 3.0])
    1.0
    """
    data = _values(values)
    return float(data.std(ddof=1) / sqrt(len(data))) if len(data) > 1 else None


def mean_standard_error(cells: Sequence[ArrayLike]) -> float | None:
    """Of a mean over cells (corruptions, severities) that show the same images: the error of every image's mean.

    Cells that share images are no independent draws: what is hard to recognise in fog is so in snow.

    >>> mean_standard_error([[1.0, 3.0], [1.0, 3.0]]), mean_standard_error([[1.0, 3.0], [3.0, 1.0]])
    (1.0, 0.0)
    """
    return standard_error(_stacked(cells).mean(0))


def paired_difference(a: ArrayLike, b: ArrayLike, *, level: float = 0.95) -> Difference:
    """How much larger the mean of `a` is than that of `b`, where both have one entry for each of the same images.

    Right or wrong (bool): the p-value is McNemar's, of the images on which only one of the two is right; the interval
    is that of Bonett and Price (2012), which has a width even where the methods never differ. Numbers: both are those
    of a normal with the standard error of the mean difference, which one image leaves open. Arrays of several cells x
    images are first averaged over the cells, because cells share images.

    Args:
        a: one entry for each image: right or wrong, or a number.
        b: the same of another method.
        level: how often such intervals hold the true difference.

    >>> right, other = [True] * 9 + [False], [True] * 4 + [False] * 6
    >>> paired_difference(right, other)
    Difference(mean=0.5, stderr=0.158..., low=0.054..., high=0.778..., p_value=0.0625)
    """
    first, second = np.asarray(a), np.asarray(b)
    if first.shape != second.shape or first.ndim not in (1, 2) or not first.size:
        raise InputError(
            f"Expected one entry for each image (or cells x images) of both, and the same images; got the shapes "
            f"{first.shape} and {second.shape}."
        )
    right_or_wrong = first.dtype == second.dtype == np.bool_ and 1 in (first.ndim, len(first))
    gaps = _values(first.astype(np.float64) - second.astype(np.float64))
    gaps = gaps.mean(0) if gaps.ndim == 2 else gaps
    mean, n = float(gaps.mean()), len(gaps)
    if right_or_wrong:
        wins, losses = int((gaps > 0).sum()), int((gaps < 0).sum())
        centre, disagree = (wins - losses) / (n + 2), (wins + losses + 2) / (n + 2)
        half = _quantile(level) * sqrt(max(disagree - centre**2, 0) / (n + 2))
        low, high = max(centre - half, -1.0), min(centre + half, 1.0)
        return Difference(mean, float(gaps.std() / sqrt(n)), low, high, mcnemar(wins, losses))
    stderr = standard_error(gaps)
    return normal_difference(mean, inf if stderr is None else stderr, level=level)


def normal_difference(mean: float, stderr: float, *, level: float = 0.95) -> Difference:
    """A difference that is normally distributed around the true one.

    >>> normal_difference(0.0, 1.0)
    Difference(mean=0.0, stderr=1.0, low=-1.95..., high=1.95..., p_value=1.0)
    """
    half = _quantile(level) * stderr
    p_value = 2 * NormalDist().cdf(-abs(mean) / stderr) if stderr else float(mean == 0)
    return Difference(mean, stderr, mean - half, mean + half, p_value)


def mcnemar(wins: int, losses: int) -> float:
    """McNemar's test: how likely a split of wins + losses at least as uneven is, if both are equally likely.

    Exact (binomial) up to 1,000 of them, then normal.

    >>> mcnemar(5, 0), mcnemar(3, 3)
    (0.0625, 1.0)
    """
    few, total = min(wins, losses), wins + losses
    if total > MAX_EXACT:
        return min(1.0, 2 * NormalDist().cdf((few + 0.5 - total / 2) / sqrt(total / 4)))
    return min(1.0, 2 * fsum(comb(total, k) / 2**total for k in range(few + 1)))


def _quantile(level: float) -> float:
    return NormalDist().inv_cdf((1 + _checked_level(level)) / 2)


def _checked_level(level: float) -> float:
    if not 0 < level < 1:
        raise InputError(f"A level lies between 0 and 1, such as 0.95; got {level}.")
    return level


def _values(values: ArrayLike) -> Values:
    data: NDArray[Any] = np.asarray(values, dtype=np.float64)
    if not data.size or not np.isfinite(data).all():
        raise InputError(f"Expected finite numbers, at least one; got {data.size}, {int(np.isnan(data).sum())} NaN.")
    return data


def _stacked(cells: Sequence[ArrayLike]) -> Values:
    lengths = {np.shape(cell) for cell in cells}
    if len(lengths) != 1 or len(next(iter(lengths))) != 1:
        raise InputError(f"Expected cells of the same images, one entry for each; got the shapes {sorted(lengths)}.")
    return _values(np.stack([np.asarray(cell, dtype=np.float64) for cell in cells]))
