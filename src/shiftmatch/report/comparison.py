"""What a method gains over a baseline, and where it loses: the numbers, and the sentences that say them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean
from typing import NamedTuple

from shiftmatch.report.grid import CLEAN, CLEAN_CELL, Cell, Grid
from shiftmatch.report.measures import readable


class Change(NamedTuple):
    """The values of the baseline and of the method, and how much better the method is."""

    before: float
    after: float
    gain: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two methods in the cells in which both were measured."""

    grid: Grid
    baseline: str
    method: str
    changes: dict[Cell, Change]

    @property
    def corrupted(self) -> list[Cell]:
        """The cells that the headline speaks of: corrupted ones, or clean ones where there are no others."""
        return [cell for cell in self.changes if cell.corruption != CLEAN] or list(self.changes)

    @property
    def overall(self) -> Change:
        return self.mean(self.corrupted)

    @property
    def clean(self) -> Change | None:
        """The change on clean images, where it is not what the headline speaks of."""
        return None if CLEAN_CELL in self.corrupted else self.changes.get(CLEAN_CELL)

    @property
    def severest(self) -> list[Cell]:
        """The cells of the highest severity, where there are several severities."""
        severities = sorted({cell.severity for cell in self.corrupted if cell.severity is not None})
        return [cell for cell in self.corrupted if cell.severity == severities[-1]] if len(severities) > 1 else []

    @property
    def losses(self) -> list[Cell]:
        """The cells in which the method is worse than the baseline, worst first."""
        return sorted((cell for cell in self.corrupted if self.changes[cell].gain < 0), key=self._gain)

    @property
    def loses(self) -> bool:
        """Whether the method is worse than the baseline anywhere, clean images included."""
        return any(change.gain < 0 for change in self.changes.values())

    @property
    def best(self) -> Cell:
        return max(self.corrupted, key=self._gain)

    def gains(self) -> dict[str, float]:
        """What is gained under each corruption and on clean images, on the mean over the severities, most first.

        A gain that is no number, because a value is infinite, is left out.
        """
        names = dict.fromkeys(cell.corruption for cell in self.changes)
        gains = {name: self.mean(cell for cell in self.changes if cell.corruption == name).gain for name in names}
        return dict(sorted(((name, gain) for name, gain in gains.items() if isfinite(gain)), key=lambda item: -item[1]))

    def mean(self, cells: Iterable[Cell]) -> Change:
        changes = [self.changes[cell] for cell in cells]
        return _change(fmean(c.before for c in changes), fmean(c.after for c in changes), self.grid.measure.better)

    def _gain(self, cell: Cell) -> float:
        return self.changes[cell].gain


def compare(grid: Grid, baseline: str, method: str) -> Comparison | None:
    """The method against the baseline; None if they share no cell, or if no value of the metric is the better one."""
    better = grid.measure.better
    changes = {
        cell: _change(values[baseline], values[method], better)
        for cell, values in grid.cells.items()
        if baseline in values and method in values
    }
    return Comparison(grid, baseline, method, changes) if changes and better else None


def headline(found: Comparison) -> str:
    """The result in one line."""
    measure, change = found.grid.measure, found.overall
    figures = f"from {measure.show(change.before)} to {measure.show(change.after)}"
    return f"{found.method} {_verb(change)} {measure.title} {figures} on {found.grid.data}"


def sentences(found: Comparison) -> list[str]:
    """The result in a few sentences: overall, at the highest severity, on clean images, where most is gained."""
    cells, show_gain = found.corrupted, found.grid.measure.show_gain
    said = [f"{headline(found)}, {_judged(found, found.overall)} than {found.baseline}: {scope(found)}."]
    if found.severest:
        said.append(f"At severity {found.severest[0].severity}, {_from_to(found, found.mean(found.severest))}.")
    if found.clean:
        said.append(f"On clean images, {_from_to(found, found.clean)}.")
    if len(cells) > 1 and (most := found.changes[found.best]).gain > 0:
        said.append(f"It gains most under {found.best}: {show_gain(most.gain)}.")
    return said


def losses(found: Comparison) -> str:
    """Where the method is worse than the baseline, every cell by name."""
    clean = f" on clean images ({_gain(found, found.clean)})" if found.clean and found.clean.gain < 0 else ""
    cells = ", ".join(f"{cell} ({_gain(found, found.changes[cell])})" for cell in found.losses)
    corrupted = f" in {len(found.losses)} of {len(found.corrupted)} cells: {cells}" if cells else ""
    if not clean and not corrupted:
        return f"It loses to {found.baseline} nowhere: in none of {len(found.corrupted)} cells."
    return f"It loses to {found.baseline}{clean}{' and' if clean and corrupted else ''}{corrupted}."


def scope(found: Comparison) -> str:
    """What the overall mean is taken over."""
    names = list(dict.fromkeys(cell.corruption for cell in found.corrupted))
    if names == [CLEAN]:
        return "clean images"
    severities = sorted({cell.severity for cell in found.corrupted if cell.severity is not None})
    over = f"mean over {len(names)} corruptions" if len(names) > 1 else readable(names[0])
    return over + (f" at {_enumerated(severities)}" if severities else "")


def _change(before: float, after: float, better: int) -> Change:
    return Change(before, after, better * (after - before))


def _verb(change: Change) -> str:
    return "keeps" if change.after == change.before else "raises" if change.after > change.before else "lowers"


def _judged(found: Comparison, change: Change) -> str:
    if change.gain == 0:
        return "no better and no worse"
    size = found.grid.measure.show_gain(abs(change.gain)).lstrip("+")
    return f"{size} {'worse' if change.gain < 0 else 'better'}"


def _gain(found: Comparison, change: Change) -> str:
    return found.grid.measure.show_gain(change.gain)


def _from_to(found: Comparison, change: Change) -> str:
    show = found.grid.measure.show
    return f"from {show(change.before)} to {show(change.after)}, {_judged(found, change)}"


def _enumerated(severities: Sequence[int]) -> str:
    *first, last = severities
    if not first:
        return f"severity {last}"
    if len(first) > 1 and last - first[0] == len(first):
        return f"severities {first[0]} to {last}"
    return f"severities {', '.join(map(str, first))} and {last}"
