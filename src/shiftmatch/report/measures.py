"""Metrics as readers see them: names, which way is better, how values are written; reliability curves and shifts."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, isnan
from statistics import fmean
from typing import NamedTuple

from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.metrics.uncertainty import Interval, wilson_interval

CLEAN = "clean"
MINUS, INFINITY, NONE = "\u2212", "\u221e", "\u2013"
PERCENT = "\u00a0%"
UNKNOWN = "no interval known"


class Estimate(NamedTuple):
    """A mean value, its 95 % interval if that is known, the images behind it, and the value of every seed."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None
    seeds: tuple[float, ...] = ()

    @property
    def is_finite(self) -> bool:
        return isfinite(self.value)

    @property
    def half(self) -> float | None:
        """Half the width of the interval."""
        if self.low is None or self.high is None or not isfinite(self.high - self.low):
            return None
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Measure:
    """A metric as readers see it; `better` is 1 if more is better, -1 if less is, 0 if neither.

    >>> measure("accuracy").show(0.7928), measure("brier").show(0.31), measure("accuracy").show_gain(-0.003)
    ('79.3\\xa0%', '0.310', '−0.3 points')
    >>> measure("accuracy").with_interval(Estimate(0.794, 0.785, 0.803))
    '79.4 ± 0.9'
    """

    name: str
    title: str
    better: int = 0
    percent: bool = False

    @property
    def unit(self) -> str:
        return "%" if self.percent else ""

    @property
    def scale(self) -> int:
        """What values are multiplied by to have the unit in which they are shown."""
        return 100 if self.percent else 1

    @property
    def digits(self) -> int:
        return 1 if self.percent else 3

    def rounded(self, value: float) -> float:
        """The value to the digits that are shown. Differences are taken of these, so that what is shown adds up.

        >>> accuracy, before, after = measure("accuracy"), 0.61849, 0.82751
        >>> accuracy.number(before), accuracy.number(after), accuracy.show_gain(accuracy.difference(before, after))
        ('61.8', '82.8', '+21.0 points')
        """
        return round(self.scale * value, self.digits) / self.scale if isfinite(value) else value

    def difference(self, before: float, after: float) -> float:
        """How much more `after` is than `before`, as they are shown."""
        return self.rounded(self.rounded(after) - self.rounded(before))

    def number(self, value: float | None, *, sign: bool = False) -> str:
        """The value without its unit; a dash where there is none."""
        if value is None or isnan(value):
            return NONE
        scaled, digits = self.scale * value, self.digits
        if 0 < abs(scaled) < 10.0**-digits / 2:
            digits += 1  # a small difference is not none
        return f"{scaled:{'+' if sign and scaled else ''}.{digits}f}".replace("-", MINUS).replace("inf", INFINITY)

    def show(self, value: float | None) -> str:
        """The value with its unit."""
        return self.number(value) + (PERCENT if self.percent else "")

    def show_gain(self, gain: float, half: float | None = None) -> str:
        """A difference with its sign, and half its interval where that is known; percentages differ by points."""
        interval = self.half(half).replace(" ", "\u00a0")  # a line does not break there
        return self.number(gain, sign=True) + interval + (" points" if self.percent else "")

    def with_interval(self, found: Estimate | None) -> str:
        """The value and half its interval, without a unit."""
        return self.number(found.value) + self.half(found.half) if found else NONE

    def half(self, width: float | None) -> str:
        """Half of an interval, to follow its value; nothing if it is not known."""
        return "" if width is None else f" ± {self.number(width)}"

    def describe(self, found: Estimate | None) -> str:
        """All that is known of how far off a value may be, in words."""
        if found is None:
            return "not measured"
        said = [
            f"95\u00a0% interval {self.number(found.low)} to {self.show(found.high)}"
            if found.half is not None
            else UNKNOWN
        ]
        said += [f"{found.n:,} images"] if found.n else []
        said += [f"seeds: {', '.join(map(self.number, found.seeds))}"] if len(found.seeds) > 1 else []
        return "; ".join(said)


_MEASURES = {
    "accuracy": Measure("accuracy", "accuracy", 1, percent=True),
    "log_likelihood": Measure("log_likelihood", "log-likelihood", 1),
    "brier": Measure("brier", "Brier score", -1),
    "ece": Measure("ece", "calibration error", -1, percent=True),
    "ece_equal_count": Measure("ece_equal_count", "calibration error, bins of equal count", -1, percent=True),
    "confidence": Measure("confidence", "mean confidence", 0, percent=True),
    "auroc": Measure("auroc", "AUROC of out-of-distribution images", 1, percent=True),
    "fpr95": Measure("fpr95", "false alarms at 95\u00a0% recall", -1, percent=True),
    "aurc": Measure("aurc", "area under risk and coverage", -1),
    "mce": Measure("mce", "mean corruption error", -1, percent=True),
}


def measure(metric: str) -> Measure:
    """How a metric is shown; of one that is not known here, no value is called better than another."""
    return _MEASURES.get(metric, Measure(metric, readable(metric)))


def show_p(p: float | None) -> str:
    """A p value as papers write it.

    >>> show_p(0.0000001), show_p(0.042), show_p(0.3), show_p(None)
    ('p < 0.001', 'p = 0.042', 'p = 0.30', '')
    """
    if p is None:
        return ""
    return "p < 0.001" if p < 0.001 else f"p = {p:.{3 if p < 0.1 else 2}f}"


def readable(name: str) -> str:
    """A name as words.

    >>> readable("gaussian_noise")
    'gaussian noise'
    """
    return name.replace("_", " ")


RELIABILITY, SHIFT = "reliability/", "shift/"
MEAN_SHIFT = "mean over the corruptions"


@dataclass(frozen=True)
class Bin:
    """Predictions of about one confidence: their mean confidence, their accuracy, their share of all."""

    confidence: float
    accuracy: float
    share: float
    n: int | None = None  # images in each set, of which this is the share

    @property
    def interval(self) -> Interval | None:
        """Of the accuracy; sets that show the same images count once."""
        count = max(1, round(self.share * self.n)) if self.n else 0
        return wilson_interval(min(self.accuracy, 1.0) * count, count) if count else None


def reliability(scores: Scores) -> dict[str, list[Bin]]:
    """Method -> bins, pooled over the corrupted sets: Σ share·accuracy / Σ share, likewise for the confidence.

    Where there are no corrupted sets, over the clean ones. Pooling takes it that every set has as many images.
    """
    rows = [row for row in scores if row.metric.startswith(RELIABILITY)]
    rows = [row for row in rows if row.corruption != CLEAN] or rows
    sets = len({(row.corruption, row.severity, row.seed) for row in rows})
    n = min((row.n for row in rows if row.n), default=None)
    bins: dict[str, dict[str, dict[tuple[object, ...], dict[str, float]]]] = {}
    for row in rows:
        _, number, part = row.metric.split("/")
        of_method = bins.setdefault(row.method, {}).setdefault(number, {})
        of_method.setdefault((row.corruption, row.severity, row.seed), {})[part] = row.value
    return {
        method: [pooled for number in sorted(found) if (pooled := _pooled(list(found[number].values()), sets, n))]
        for method, found in bins.items()
    }


def _pooled(parts: list[dict[str, float]], sets: int, n: int | None) -> Bin | None:
    """One bin of many; None if nothing fell into it."""
    filled = [part for part in parts if part.get("share", 0) > 0 and all(map(isfinite, part.values()))]
    total = sum(part["share"] for part in filled)
    if not total:
        return None
    confidence, accuracy = (
        sum(part["share"] * part[name] for part in filled) / total for name in ("confidence", "accuracy")
    )
    return Bin(confidence, accuracy, total / sets, n)


def calibration_gap(bins: list[Bin]) -> float:
    """Σ share · |confidence − accuracy| of pooled bins.

    >>> calibration_gap([Bin(0.75, 0.5, 0.5), Bin(0.5, 0.5, 0.5)])
    0.125
    """
    return sum(part.share * abs(part.confidence - part.accuracy) for part in bins)


def layer_shifts(scores: Scores) -> Mapping[str, Mapping[str, float]]:
    """Corruption -> site -> shift, at the highest severity of each; the mean over the corruptions comes first.

    They are those of one method, the first that has any.
    """
    rows = [row for row in scores if row.metric.startswith(SHIFT)]
    rows = [row for row in rows if row.method == rows[0].method]
    top = {row.corruption: _strength(row) for row in sorted(rows, key=_strength)}
    chosen = Scores([row for row in rows if _strength(row) == top[row.corruption]])
    found: dict[str, dict[str, float]] = {}
    for (corruption, metric), value in chosen.mean(by=("corruption", "metric")).items():
        found.setdefault(corruption, {})[metric.removeprefix(SHIFT)] = value
    corrupted = [row for name, row in found.items() if name != CLEAN]
    if len(corrupted) < 2:
        return found
    sites = dict.fromkeys(site for row in corrupted for site in row)
    return {MEAN_SHIFT: {site: fmean(row[site] for row in corrupted if site in row) for site in sites}} | found


def _strength(row: Score) -> int:
    return row.severity or 0
