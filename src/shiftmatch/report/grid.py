"""The values of one metric on one data set: cell by cell, method by method."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from shiftmatch.evaluation.scores import Scores, Severity
from shiftmatch.report.measures import Measure, measure, readable

CLEAN = "clean"
PARTS = "/"
"""In the names of metrics that yield several numbers, as reliability/07/accuracy."""

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


def group_of(corruption: str) -> str:
    """The family of a corruption.

    >>> group_of("fog"), group_of("my own")
    ('weather', 'other')
    """
    return GROUP_OF.get(corruption, "other")


@dataclass(frozen=True, eq=False)
class Grid:
    """Cell -> method -> value, averaged over seeds."""

    data: str
    measure: Measure
    methods: tuple[str, ...]
    cells: Mapping[Cell, Mapping[str, float]]

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

    def mean(self, method: str, cells: Iterable[Cell]) -> float | None:
        """The mean of a method over cells; None unless it was measured in every one."""
        values = [self.cells[cell].get(method) for cell in cells if cell in self.cells]
        measured = [value for value in values if value is not None]
        return fmean(measured) if measured and len(measured) == len(values) else None


def grid_of(scores: Scores, data: str, metric: str) -> Grid:
    """The values of one metric on one data set."""
    chosen = scores.where(data=data, metric=metric)
    cells: dict[Cell, dict[str, float]] = {}
    for (corruption, severity, method), value in chosen.mean(by=("corruption", "severity", "method")).items():
        cells.setdefault(Cell(corruption, severity), {})[method] = value
    return Grid(data, measure(metric), tuple(chosen.values("method")), cells)


def grids(scores: Scores) -> Sequence[Grid]:
    """One grid for each data set and each metric that is one number."""
    pairs = dict.fromkeys((row.data, row.metric) for row in scores if PARTS not in row.metric)
    order = scores.values("data")
    return [grid_of(scores, *pair) for pair in sorted(pairs, key=lambda pair: order.index(pair[0]))]
