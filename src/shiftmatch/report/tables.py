"""A grid as tables of corruption × method: one for each severity, one for their mean, and what is marked in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shiftmatch.report.grid import CLEAN, CLEAN_CELL, Cell, Grid
from shiftmatch.report.measures import Estimate

MEAN = "mean"


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
