"""A grid as tables of corruption × method: one for each severity, and one for their mean."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from shiftmatch.report.grid import CLEAN, CLEAN_CELL, Cell, Grid

MEAN = "mean"
Values = Mapping[str, float | None]
"""Method -> value, None where it was not measured."""


@dataclass(frozen=True, eq=False)
class Block:
    """Rows by corruption, clean images first, and the mean over the corruptions."""

    severity: str  # "mean", a number, or nothing for corruptions of one strength
    rows: Mapping[str, Values]
    mean: Values

    @property
    def title(self) -> str:
        if self.severity == MEAN:
            return "mean of the severities"
        return f"severity {self.severity}" if self.severity else "one strength"


def blocks(grid: Grid) -> list[Block]:
    """The mean of the severities first, if there are several; then each severity."""
    found = sorted({cell.severity for cell in grid.corrupted}, key=lambda severity: severity or 0)
    one_each = [_block(grid, "" if severity is None else str(severity), [severity]) for severity in found]
    if len(found) == 1:
        return one_each
    return [_block(grid, MEAN if found else "", found), *one_each]


def best(values: Values, better: int) -> set[str]:
    """The methods with the best value of a row, if there is such a thing.

    >>> sorted(best({"a": 0.5, "b": 0.7, "c": 0.7, "d": None}, 1))
    ['b', 'c']
    """
    known = {method: better * value for method, value in values.items() if value is not None and isfinite(value)}
    return {method for method, value in known.items() if value == max(known.values())} if better else set()


def worst(block: Block, better: int) -> set[tuple[str, str]]:
    """The pairs (corruption, method) at which each method does worst, if there are several corruptions."""
    found: set[tuple[str, str]] = set()
    rows = {name: values for name, values in block.rows.items() if name != CLEAN}
    for method in block.mean if len(rows) > 1 else ():
        column = {name: values.get(method) for name, values in rows.items()}
        found |= {(name, method) for name in best(column, -better)}
    return found


def _block(grid: Grid, label: str, severities: Sequence[int | None]) -> Block:
    def row(cells: list[Cell]) -> dict[str, float | None]:
        return {method: grid.mean(method, cells) for method in grid.methods}

    cells = {name: [Cell(name, severity) for severity in severities] for name in grid.corruptions}
    present = {name: own for name, own in cells.items() if any(cell in grid.cells for cell in own)}
    clean = {CLEAN: row([CLEAN_CELL])} if CLEAN_CELL in grid.cells else {}
    rows = clean | {name: row(own) for name, own in present.items()}
    return Block(label, rows, row([cell for own in present.values() for cell in own]))
