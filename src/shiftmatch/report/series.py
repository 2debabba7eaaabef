"""Results that are kept as several rows each: reliability curves, and the shift of every layer."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from statistics import fmean

from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.metrics.uncertainty import Interval, wilson_interval
from shiftmatch.report.grid import CLEAN

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
