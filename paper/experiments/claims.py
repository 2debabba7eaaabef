"""Comparisons with what the paper says: numbers beside numbers, and statements that hold or do not."""

from statistics import fmean

from paper.experiments.experiment import Comparison
from shiftmatch.evaluation.scores import Scores, Severity

CLEAN = "clean"
POINTS = {"accuracy": 100.0, "ece": 100.0, "ece_equal_count": 100.0}
"""Metrics that are shown in per cent."""


def mean(
    scores: Scores, method: str, severity: Severity = None, *, metric: str = "accuracy", clean: bool = False
) -> float:
    """The mean over the corruptions at a severity (the highest unless given), or the value on clean images."""
    rows = scores.where(method=method, metric=metric)
    if clean:
        return fmean(row.value for row in rows if row.corruption == CLEAN)
    level = top(scores) if severity is None else severity
    return fmean(row.value for row in rows if row.corruption != CLEAN and row.severity == level)


def top(scores: Scores) -> Severity:
    """The highest severity; None where corruptions have one only.

    >>> top(Scores([]))
    """
    return max((severity for severity in scores.values("severity") if severity is not None), default=None)


def has(scores: Scores, *methods: str) -> bool:
    """Whether all of these were run."""
    return set(methods) <= set(scores.values("method"))


def beats(
    scores: Scores, better: str, worse: str, *, metric: str = "accuracy", severity: Severity = None, margin: float = 0.0
) -> list[Comparison]:
    """The paper's statement that a method is better than another; `margin` is what it may fall short by.

    Nothing if either was not run.
    """
    if not has(scores, better, worse):
        return []
    level = top(scores) if severity is None else severity
    gain = mean(scores, better, level, metric=metric) - mean(scores, worse, level, metric=metric)
    where = "" if level is None else f" at severity {level}"
    what = f"{better} has a higher {metric.replace('_', '-')} than {worse}{where}"
    return [Comparison(what, _difference(gain, metric), "yes", gain > -margin)]


def holds(what: str, found: str, *, agrees: bool) -> Comparison:
    """A statement of the paper without a number.

    >>> holds("gains", "+3 points", agrees=True).published
    'yes'
    """
    return Comparison(what, found, "yes", agrees)


def beside(what: str, ours: float, published: float, *, within: float, digits: int = 1, unit: str = "") -> Comparison:
    """A number beside the published one; they agree if they differ by no more than `within`.

    >>> beside("gain", 5.04, 5.5, within=1.0).agrees
    True
    """
    shown = f"{ours:.{digits}f}{unit}", f"{published:.{digits}f}{unit}"
    return Comparison(what, *shown, abs(ours - published) <= within)


def _difference(value: float, metric: str) -> str:
    scale = POINTS.get(metric)
    return f"{value:+.3f}" if scale is None else f"{scale * value:+.1f} points"
