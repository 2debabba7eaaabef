"""What a report speaks of: every metric on every data set, and what methods gain over the baseline there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite

from shiftmatch.errors import InputError
from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.grid import CLEAN, CLEAN_CELL, Cell, Change, Grid, grids

BASELINE, METHOD = "plain", "ShiftMatch"


@dataclass(frozen=True, eq=False)
class PairedComparison:
    """Two methods in the cells in which both were measured."""

    grid: Grid
    baseline: str
    method: str
    cells: Sequence[Cell]

    @cached_property
    def changes(self) -> Mapping[Cell, Change]:
        return {cell: self.mean([cell]) for cell in self.cells}

    @property
    def corrupted(self) -> list[Cell]:
        """The cells that the headline speaks of: corrupted ones, or clean ones where there are no others."""
        return [cell for cell in self.cells if cell.corruption != CLEAN] or list(self.cells)

    @cached_property
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
    def best(self) -> Cell:
        return max(self.corrupted, key=self._gain)

    def gains(self) -> dict[str, Change]:
        """What is gained under each corruption and on clean images, on the mean over the severities, most first.

        A gain that is no number, because a value is infinite, is left out.
        """
        names = dict.fromkeys(cell.corruption for cell in self.cells)
        found = {name: self.mean([cell for cell in self.cells if cell.corruption == name]) for name in names}
        kept = {name: change for name, change in found.items() if isfinite(change.gain)}
        return dict(sorted(kept.items(), key=lambda item: -item[1].gain))

    def mean(self, cells: Sequence[Cell]) -> Change:
        change = self.grid.change(self.baseline, self.method, cells)
        assert change is not None, "both methods were measured in these cells"
        return change

    def _gain(self, cell: Cell) -> float:
        return self.changes[cell].gain


@dataclass(frozen=True, eq=False)
class Finding:
    """The values of one metric on one data set, and every method against the baseline, where that can be said."""

    grid: Grid
    comparison: PairedComparison | None  # of the method that the report is about
    others: Sequence[PairedComparison]  # of all methods, that one included

    @property
    def name(self) -> str:
        return f"{self.grid.data}: {self.grid.measure.title}"


def find(scores: Scores, baseline: str = BASELINE, method: str = METHOD) -> Sequence[Finding]:
    """A finding for each data set and metric, in the order of the scores."""
    _check(scores, baseline, method)
    found = []
    for grid in grids(scores):
        compared = [compare(grid, baseline, name) for name in grid.methods if name != baseline]
        others = [each for each in compared if each is not None]
        found.append(Finding(grid, next((each for each in others if each.method == method), None), others))
    return found


def method_in(methods: Sequence[str], name: str) -> str:
    """The name itself; if no method has it, the first whose name begins with it: ShiftMatch is ShiftMatch: spectrum.

    >>> method_in(["plain", "ShiftMatch: spectrum", "ShiftMatch (paper)"], "ShiftMatch")
    'ShiftMatch: spectrum'
    """
    begin = (known for known in methods if known.startswith((f"{name}:", f"{name} (")))
    return name if name in methods else next(begin, name)


def compare(grid: Grid, baseline: str, method: str) -> PairedComparison | None:
    """The method against the baseline; None if they share no cell, or if no value of the metric is the better one."""
    cells = [cell for cell, found in grid.cells.items() if baseline in found and method in found]
    return PairedComparison(grid, baseline, method, cells) if cells and grid.measure.better else None


def first_comparison(findings: Sequence[Finding]) -> PairedComparison:
    """The one that the headline of a report is about."""
    for finding in findings:
        if finding.comparison is not None:
            return finding.comparison
    raise InputError(
        "The two methods were never measured by the same metric on the same data, so that there is nothing to compare. "
        "Evaluate both on one suite, or name two others with baseline= and method= (--baseline and --method)."
    )


def _check(scores: Scores, baseline: str, method: str) -> None:
    if not len(scores):
        raise InputError("There are no scores to report. Make some with shiftmatch evaluate, or sm.evaluate(...).")
    methods = scores.values("method")
    for role, name in (("baseline", baseline), ("method", method)):
        if name not in methods:
            raise InputError(
                f"The scores have no method {name!r} to take as the {role}; they have {', '.join(map(repr, methods))}. "
                f"Name one of these: {role}=... in Python, --{role} on the command line."
            )
    if baseline == method:
        raise InputError(f"The baseline and the method are both {method!r}. Name two different ones.")
