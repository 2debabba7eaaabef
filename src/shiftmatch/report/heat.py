"""Tables as heat maps: how strongly each cell is coloured, and what marks it besides its colour."""

from dataclasses import dataclass
from math import isfinite

from shiftmatch.report.blocks import MEAN, Block, Values, best, worst
from shiftmatch.report.grid import CLEAN, group_of
from shiftmatch.report.measures import Measure

STRONGEST = 45
"""Of the colour, in %: as much as text stays readable on, in light and in dark."""


@dataclass(frozen=True)
class Shown:
    """A value as it is shown; `level` is how much of the colour is behind it, in %."""

    value: float | None  # None if it cannot be reckoned with
    text: str
    level: int
    best: bool
    worst: bool
    below: bool  # the baseline


@dataclass(frozen=True)
class HeatRow:
    name: str
    group: str
    cells: list[Shown]


@dataclass(frozen=True)
class HeatMap:
    """The rows of a block, the last of them the mean over the corruptions if there are several."""

    severity: str
    title: str
    rows: list[HeatRow]
    mean: HeatRow | None


def heat_map(block: Block, measure: Measure, baseline: str, span: tuple[float, float]) -> HeatMap:
    """A block whose best values have the strongest colour; `span` is the range of values that colours tell apart."""
    marked = worst(block, measure.better)

    def row(name: str, values: Values) -> HeatRow:
        leaders = best(values, measure.better) if len(values) > 1 else set()
        cells = [
            Shown(
                value=value if value is not None and isfinite(value) else None,
                text=measure.number(value),
                level=_level(value, measure.better, *span),
                best=method in leaders,
                worst=(name, method) in marked,
                below=_is_below(value, values.get(baseline), measure.better),
            )
            for method, value in values.items()
        ]
        return HeatRow(name, group_of(name), cells)

    several = len(block.rows.keys() - {CLEAN}) > 1
    rows = [row(name, values) for name, values in block.rows.items()]
    return HeatMap(block.severity, block.title, rows, row(MEAN, block.mean) if several else None)


def _level(value: float | None, better: int, low: float, high: float) -> int:
    if value is None or not isfinite(value) or low == high:
        return 0
    share = (value - low) / (high - low)
    return round(STRONGEST * (1 - share if better < 0 else share))


def _is_below(value: float | None, reference: float | None, better: int) -> bool:
    return value is not None and reference is not None and better * (value - reference) < 0
