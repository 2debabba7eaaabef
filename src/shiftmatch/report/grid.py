"""The values of one metric on one data set, cell by cell and method by method, with their intervals and differences.

Also as tables of corruption × method: one for each severity, one for their mean, and what is marked in them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import hypot, isfinite
from statistics import NormalDist, fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shiftmatch.evaluation.scores import ACCURACY, Correct, Score, Scores, Severity
from shiftmatch.metrics.uncertainty import mean_standard_error, normal_difference, paired_difference, wilson_interval
from shiftmatch.report.measures import CLEAN, Estimate, Measure, measure, readable

MEAN = "mean"
PARTS = "/"
"""In the names of metrics that yield several numbers, as reliability/07/accuracy."""

LEVEL = 0.95
_Z = NormalDist().inv_cdf((1 + LEVEL) / 2)

_GROUPS = {
    "noise": "gaussian_noise shot_noise impulse_noise speckle_noise",
    "blur": "defocus_blur glass_blur motion_blur zoom_blur gaussian_blur",
    "weather": "snow frost fog brightness spatter",
    "digital": "contrast elastic_transform pixelate jpeg_compression saturate",
    "shape": "shear scale rotate translate",
    "drawing": "stripe dotted_line zigzag canny_edges",
    CLEAN: CLEAN,
}
GROUP_OF = {name: group for group, names in _GROUPS.items() for name in names.split()}


class Cell(NamedTuple):
    """One corrupted set; `severity` is None for clean images and for corruptions of one strength."""

    corruption: str
    severity: Severity

    def __str__(self) -> str:
        return readable(self.corruption) + (f" at severity {self.severity}" if self.severity is not None else "")


CLEAN_CELL = Cell(CLEAN, None)


class Change(NamedTuple):
    """Two estimates and how much better the second is: with half of its interval, and a p value where that is known.

    `gain` is the difference of the values as they are shown. It is `paired` if it was taken image by image; otherwise
    its interval is that of two independent samples, which is too wide for methods that saw the same images.
    """

    before: Estimate
    after: Estimate
    gain: float
    half: float | None = None
    p_value: float | None = None
    paired: bool = False

    @property
    def beyond_noise(self) -> bool:
        """Whether the interval leaves out zero, and every seed has it so; False where no interval is known."""
        pairs = zip(self.before.seeds, self.after.seeds, strict=False)
        sides = {after > before for before, after in pairs}
        return self.p_value is not None and self.p_value < 1 - LEVEL and self.gain != 0 and len(sides) <= 1

    @property
    def is_noise(self) -> bool:
        """Whether the difference may be noise; without an interval that is not known, and it is taken as it is."""
        return self.p_value is not None and not self.beyond_noise

    @property
    def is_loss(self) -> bool:
        """Whether the second is worse, unless that may be noise."""
        return self.gain < 0 and not self.is_noise


@dataclass(frozen=True, eq=False)
class Grid:
    """Cell -> method -> its rows, one for each seed; and which images were right, where that was kept."""

    data: str
    measure: Measure
    methods: tuple[str, ...]
    cells: Mapping[Cell, Mapping[str, Sequence[Score]]]
    correct: Correct

    @property
    def corrupted(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.corruption != CLEAN]

    @property
    def corruptions(self) -> list[str]:
        return list(dict.fromkeys(cell.corruption for cell in self.corrupted))

    @property
    def severities(self) -> list[int]:
        """The severities of the corruptions, mildest first; none if all come in one strength."""
        return sorted({cell.severity for cell in self.corrupted if cell.severity is not None})

    def estimate(self, method: str, cells: Iterable[Cell]) -> Estimate | None:
        """The mean of a method over cells and seeds; None unless it was measured in every one.

        Cells show the same images, so that they are no independent samples. Where it was kept which images were right,
        the interval is that of the images' means; otherwise it is the mean of the cells' intervals, an upper bound.
        """
        groups = [self.cells[cell].get(method) for cell in cells if cell in self.cells]
        rows = [row for group in groups if group for row in group]
        if not groups or not all(groups):
            return None
        value = fmean(fmean(row.value for row in group) for group in groups if group)
        n = min((row.n for row in rows if row.n), default=None)
        return Estimate(value, *self._interval(rows, value, n), n, _by_seed(rows))

    def change(self, before: str, after: str, cells: Sequence[Cell]) -> Change | None:
        """How much better the second method is than the first, on the mean over cells that have both."""
        first, second = self.estimate(before, cells), self.estimate(after, cells)
        if first is None or second is None or not self.measure.better:
            return None
        gain = self.measure.better * self.measure.difference(first.value, second.value)
        right, other = (self._right(self._rows(method, cells)) for method in (after, before))
        if right is not None and other is not None and right.shape == other.shape:
            found = paired_difference(right, other, level=LEVEL)
            return Change(first, second, gain, (found.high - found.low) / 2, found.p_value, paired=True)
        if not first.half or not second.half or not isfinite(gain):
            return Change(first, second, gain)
        apart = normal_difference(second.value - first.value, hypot(first.half, second.half) / _Z, level=LEVEL)
        return Change(first, second, gain, (apart.high - apart.low) / 2, apart.p_value)

    def _rows(self, method: str, cells: Iterable[Cell]) -> list[Score]:
        return [row for cell in cells for row in self.cells.get(cell, {}).get(method, ())]

    def _interval(self, rows: Sequence[Score], value: float, n: int | None) -> tuple[float | None, float | None]:
        right, share = self._right(rows), self.measure.name == ACCURACY and 0 <= value <= 1
        stderr = mean_standard_error(list(right)) if right is not None else _upper_bound(rows)
        if share and n and (len(rows) == 1 or stderr == 0):  # if all images are right, there is room for doubt yet
            return wilson_interval(value * n, n, LEVEL)
        return (None, None) if stderr is None else (value - _Z * stderr, value + _Z * stderr)

    def _right(self, rows: Sequence[Score]) -> NDArray[np.bool_] | None:
        """Cells × images, if it is known of every row which images were right, and they are as many."""
        if self.measure.name != ACCURACY or not rows:
            return None
        kept = [self.correct[row.key] for row in rows if row.key in self.correct]
        return np.stack(kept) if len(kept) == len(rows) and len({len(each) for each in kept}) == 1 else None


def _upper_bound(rows: Sequence[Score]) -> float | None:
    """The standard error of a mean is at most the mean of the standard errors, however the cells depend."""
    known = [row.stderr for row in rows if row.stderr is not None]
    return fmean(known) if len(known) == len(rows) else None


def _by_seed(rows: Sequence[Score]) -> tuple[float, ...]:
    seeds = sorted({row.seed for row in rows})
    return tuple(fmean(row.value for row in rows if row.seed == seed) for seed in seeds)


def group_of(corruption: str) -> str:
    """The family of a corruption.

    >>> group_of("fog"), group_of("my own")
    ('weather', 'other')
    """
    return GROUP_OF.get(corruption, "other")


def grid_of(scores: Scores, data: str, metric: str) -> Grid:
    """The values of one metric on one data set."""
    chosen = scores.where(data=data, metric=metric)
    cells: dict[Cell, dict[str, list[Score]]] = {}
    for row in chosen:
        cells.setdefault(Cell(row.corruption, row.severity), {}).setdefault(row.method, []).append(row)
    return Grid(data, measure(metric), tuple(chosen.values("method")), cells, scores.correct)


def grids(scores: Scores) -> Sequence[Grid]:
    """One grid for each data set and each metric that is one number."""
    pairs = dict.fromkeys((row.data, row.metric) for row in scores if PARTS not in row.metric)
    order = scores.values("data")
    return [grid_of(scores, *pair) for pair in sorted(pairs, key=lambda pair: order.index(pair[0]))]


@dataclass(frozen=True, eq=False)
class Row:
    """One line of a table. What is marked is beyond noise; without intervals, every loss is marked and no winner."""

    name: str
    values: Mapping[str, Estimate | None]  # by method; None where it was not measured
    leader: str | None = None  # better than every other method
    behind: frozenset[str] = frozenset()  # worse than the baseline


@dataclass(frozen=True, eq=False)
class Block:
    """Rows by corruption, clean images first, and the mean over the corruptions if there are several."""

    severity: str  # "mean", a number, or nothing for corruptions of one strength
    rows: Sequence[Row]
    mean: Row | None

    @property
    def title(self) -> str:
        if self.severity == MEAN:
            return "mean of the severities"
        return f"severity {self.severity}" if self.severity else "one strength"

    @property
    def every_row(self) -> list[Row]:
        return [*self.rows, *([self.mean] if self.mean else [])]

    def worst(self, better: int) -> set[tuple[str, str]]:
        """The pairs (corruption, method) at which each method does worst, if there are several corruptions."""
        marked: set[tuple[str, str]] = set()
        rows = [row for row in self.rows if row.name != CLEAN]
        for method in rows[0].values if self.mean and better else ():
            cells = {row.name: found for row in rows if (found := row.values[method])}
            column = {name: better * cell.value for name, cell in cells.items() if cell.is_finite}
            marked |= {(name, method) for name, value in column.items() if value == min(column.values())}
        return marked


def blocks(grid: Grid, baseline: str) -> list[Block]:
    """The mean of the severities first, if there are several; then each severity."""
    found = sorted({cell.severity for cell in grid.corrupted}, key=lambda severity: severity or 0)
    one_each = [_block(grid, baseline, "" if severity is None else str(severity), [severity]) for severity in found]
    if len(found) == 1:
        return one_each
    return [_block(grid, baseline, MEAN if found else "", found), *one_each]


def row_of(grid: Grid, baseline: str, name: str, cells: Sequence[Cell]) -> Row:
    """The means of every method over cells."""
    values = {method: grid.estimate(method, cells) for method in grid.methods}
    behind = {method for method in grid.methods if _is_behind(grid, baseline, method, cells)}
    return Row(name, values, _leader(grid, values, cells), frozenset(behind))


def _block(grid: Grid, baseline: str, label: str, severities: Sequence[int | None]) -> Block:
    cells = {name: [Cell(name, severity) for severity in severities] for name in grid.corruptions}
    present = {name: own for name, own in cells.items() if any(cell in grid.cells for cell in own)}
    lines = ({CLEAN: [CLEAN_CELL]} if CLEAN_CELL in grid.cells else {}) | present
    rows = [row_of(grid, baseline, name, own) for name, own in lines.items()]
    every = [cell for own in present.values() for cell in own]
    return Block(label, rows, row_of(grid, baseline, MEAN, every) if len(present) > 1 else None)


def _leader(grid: Grid, values: Mapping[str, Estimate | None], cells: Sequence[Cell]) -> str | None:
    known = {name: grid.measure.better * found.value for name, found in values.items() if found and found.is_finite}
    order = sorted(known, key=lambda name: -known[name])
    changes = (grid.change(other, order[0], cells) for other in order[1:])
    return order[0] if len(order) > 1 and all(change and change.beyond_noise for change in changes) else None


def _is_behind(grid: Grid, baseline: str, method: str, cells: Sequence[Cell]) -> bool:
    change = grid.change(baseline, method, cells) if method != baseline else None
    return change is not None and change.is_loss
