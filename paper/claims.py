"""What the paper says beside what was found here, judged with the uncertainty of what was found."""

from enum import StrEnum
from math import inf, sqrt
from typing import NamedTuple

from shiftmatch.evaluation.scores import Mean, Scores, Severity

CLEAN = "clean"
Z = 1.959964
"""Half the width of a 95 % interval, in standard errors."""

PERCENT = ("accuracy", "ece", "ece_equal_count")
"""Metrics that are shown in per cent."""

LOWER_IS_BETTER = ("ece", "ece_equal_count", "brier", "fpr95")


class Verdict(StrEnum):
    """What the 95 % interval of a number says about a claim."""

    AGREES = "agrees"
    DIFFERS = "differs beyond noise"
    CANNOT_TELL = "cannot tell"
    NOT_JUDGED = ""  # stated for information only, such as seconds on another machine


class Claim(NamedTuple):
    """Something that the paper says, what was found here with its 95 % interval and number of images, the verdict."""

    what: str
    published: str
    ours: str
    interval: str
    n: int | None
    verdict: Verdict


def judge(found: Mean, accepted: tuple[float, float]) -> Verdict:
    """Compare the 95 % interval of a number with the range of values that agree with the paper.

    Inside: agrees. Outside: differs beyond noise. Both, or no standard error: cannot tell.

    >>> [judge(Mean(value, 1.0, 100), (0.0, inf)).value for value in (3, -3, 1)]
    ['agrees', 'differs beyond noise', 'cannot tell']
    """
    if found.stderr is None:
        return Verdict.CANNOT_TELL
    low, high = interval(found)
    if accepted[0] <= low and high <= accepted[1]:
        return Verdict.AGREES
    return Verdict.DIFFERS if high < accepted[0] or accepted[1] < low else Verdict.CANNOT_TELL


def interval(found: Mean) -> tuple[float, float]:
    """The 95 % interval; without a standard error, everything."""
    half = inf if found.stderr is None else Z * found.stderr
    return found.value - half, found.value + half


def stated(
    what: str, found: Mean, accepted: tuple[float, float], *, published: str = "yes", scale: float = 1.0, unit: str = ""
) -> Claim:
    """A claim about a number, which agrees within a range; numbers are shown times `scale`.

    >>> stated("half are right", Mean(0.5, 0.01, 2500), (0.45, 0.55), scale=100, unit=" %").ours
    '50.0 %'
    """
    digits = 1 if scale == 100 else 3
    low, high = (f"{scale * end:.{digits}f}" for end in interval(found))
    shown = "" if found.stderr is None else f"{low} to {high}"
    return Claim(what, published, f"{scale * found.value:.{digits}f}{unit}", shown, found.n, judge(found, accepted))


def promised(what: str, found: Mean, least: float, *, unit: str = " points") -> Claim:
    """What this package promises, not the paper: a number that is at least so large.

    >>> promised("gain", Mean(0.05, 0.001, 1000), 0.0).verdict.value
    'agrees'
    """
    return stated(what, found, (least, inf), published="ours", scale=100.0, unit=unit)


def beside(what: str, found: Mean, published: float, *, within: float, scale: float = 1.0, unit: str = "") -> Claim:
    """A number beside the published one; `within` is what it may differ by and still count as the same.

    >>> beside("gain", Mean(0.05, 0.001, 1000), 0.055, within=0.01, scale=100, unit=" points").verdict.value
    'agrees'
    """
    digits = 1 if scale == 100 else 3
    accepted = (published - within, published + within)
    return stated(what, found, accepted, published=f"{scale * published:.{digits}f}{unit}", scale=scale, unit=unit)


def beats(
    scores: Scores, better: str, worse: str, *, metric: str = "accuracy", severity: Severity = None, margin: float = 0.0
) -> list[Claim]:
    """The paper's statement that a method is better than another; `margin` is what it may fall short by.

    Nothing if either was not run.
    """
    if not has(scores, better, worse):
        return []
    level = top(scores) if severity is None else severity
    found = gain(scores, better, worse, level, metric=metric)
    lower = metric in LOWER_IS_BETTER
    where = "" if level is None else f" at severity {level}"
    word = f"{'lower' if lower else 'higher'} {metric.replace('_', '-')}"
    what = f"{better} has a {word} than {worse}{where}"
    scale, unit = (100.0, " points") if metric in PERCENT else (1.0, "")
    return [stated(what, found, (-inf, margin) if lower else (-margin, inf), scale=scale, unit=unit)]


def gain(scores: Scores, better: str, worse: str, severity: Severity = None, *, metric: str = "accuracy") -> Mean:
    """How much larger the mean over the corruptions is for one method than for another, with its standard error.

    Image by image where the scores know which images were right; else as if the two were independent, which is wider.
    """
    level = top(scores) if severity is None else severity
    return _difference(_corrupted(scores.where(metric=metric), level), better, worse)


def minus(one: Mean, other: Mean) -> Mean:
    """The difference of two means as if they were independent, which is wider where they are of the same images."""
    known = one.stderr is not None and other.stderr is not None
    stderr = sqrt((one.stderr or 0) ** 2 + (other.stderr or 0) ** 2) if known else None
    return Mean(one.value - other.value, stderr, one.n)


def mean(
    scores: Scores, method: str, severity: Severity = None, *, metric: str = "accuracy", clean: bool = False
) -> Mean:
    """The mean over the corruptions at a severity (the highest unless given), or the value on clean images."""
    rows = scores.where(method=method, metric=metric)
    chosen = rows.where(corruption=CLEAN) if clean else _corrupted(rows, top(scores) if severity is None else severity)
    (found,) = chosen.means(by=("method",)).values()
    return found


def helped(scores: Scores, better: str, worse: str) -> tuple[int, int, int]:
    """Under how many corruptions a method is better than another: beyond noise; at all; or not worse beyond noise."""
    rows = scores.where(metric="accuracy")
    names = [name for name in rows.values("corruption") if name != CLEAN]
    gains = [_difference(rows.where(corruption=name), better, worse) for name in names]
    verdicts = [judge(found, (0.0, inf)) for found in gains]
    low, high = verdicts.count(Verdict.AGREES), len(names) - verdicts.count(Verdict.DIFFERS)
    return low, sum(found.value > 0 for found in gains), high


def top(scores: Scores) -> Severity:
    """The highest severity; None where corruptions have one only.

    >>> top(Scores([]))
    """
    return max((severity for severity in scores.values("severity") if severity is not None), default=None)


def has(scores: Scores, *methods: str) -> bool:
    """Whether all of these were run."""
    return set(methods) <= set(scores.values("method"))


def _corrupted(scores: Scores, severity: Severity) -> Scores:
    names = [name for name in scores.values("corruption") if name != CLEAN]
    return scores.where(corruption=names, severity=severity)


def _difference(rows: Scores, better: str, worse: str) -> Mean:
    """Of the means over all rows, which are of one metric."""
    means = rows.means(by=("method",))
    high, low = means[better,], means[worse,]
    paired = rows.difference(better, worse) if rows.values("metric") == ["accuracy"] else None
    if paired:
        return Mean(paired.mean, paired.stderr, high.n)
    return minus(high, low)
