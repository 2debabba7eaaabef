"""One number for a whole corruption benchmark."""

from collections.abc import Mapping, Sequence
from math import fsum, isfinite
from statistics import fmean

from shiftmatch.errors import InputError

Errors = Mapping[str, Sequence[float]]
"""By corruption: the share of errors at each severity."""


def mean_corruption_error(errors: Errors, baseline: Errors) -> float:
    """The mCE of Hendrycks & Dietterich (2019): the mean over corruptions of Σ_s error / Σ_s error of a baseline.

    The sums go over the severities s.

    >>> mean_corruption_error({"fog": [0.2, 0.4], "snow": [0.3]}, {"fog": [0.4, 0.8], "snow": [0.3]})
    0.75
    """
    if not errors or {name: len(row) for name, row in errors.items()} != {n: len(row) for n, row in baseline.items()}:
        raise InputError(
            f"The errors ({', '.join(errors) or 'none'}) and those of the baseline ({', '.join(baseline) or 'none'}) "
            "must be of the same corruptions at the same severities, at least one of each."
        )
    sums = {name: (fsum(row), fsum(baseline[name])) for name, row in errors.items()}
    if bad := [name for name, (ours, theirs) in sums.items() if not isfinite(ours) or not 0 < theirs < float("inf")]:
        raise InputError(f"The errors under {bad[0]} are no numbers to divide: {sums[bad[0]]}.")
    return fmean(ours / theirs for ours, theirs in sums.values())
