"""What a report speaks of: every grid of the scores, each with its comparison."""

from collections.abc import Sequence
from dataclasses import dataclass

from shiftmatch.errors import InputError
from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.comparison import Comparison, compare
from shiftmatch.report.grid import Grid, grids

BASELINE, METHOD = "plain", "ShiftMatch"


@dataclass(frozen=True, eq=False)
class Finding:
    """The values of one metric on one data set, and what the method gains there, if that can be said."""

    grid: Grid
    comparison: Comparison | None

    @property
    def name(self) -> str:
        return f"{self.grid.data}: {self.grid.measure.title}"


def find(scores: Scores, baseline: str = BASELINE, method: str = METHOD) -> Sequence[Finding]:
    """A finding for each data set and metric, in the order of the scores."""
    _check(scores, baseline, method)
    return [Finding(grid, compare(grid, baseline, method)) for grid in grids(scores)]


def first_comparison(findings: Sequence[Finding]) -> Comparison:
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
