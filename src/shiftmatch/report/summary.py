"""What a report says: every metric on every data set, what methods gain over the baseline, how it was measured."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any

from shiftmatch.errors import InputError
from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.grid import CLEAN_CELL, PARTS, Cell, Change, Grid, grids
from shiftmatch.report.measures import CLEAN, UNKNOWN, readable, show_p

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
    """The name itself; if no method has it, its default structure, else the first whose name begins with it.

    >>> method_in(["plain", "ShiftMatch (paper)", "ShiftMatch: spectrum"], "ShiftMatch")
    'ShiftMatch: spectrum'
    """
    begin = (known for known in methods if known.startswith((f"{name}:", f"{name} (")))
    return next((known for known in (name, f"{name}: spectrum") if known in methods), next(begin, name))


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


def headline(found: PairedComparison, made_here: str = "") -> str:
    """The result in one line, with the number of images, and whether those were made here."""
    measure, change = found.grid.measure, found.overall
    images = [f"{change.after.n:,} images"] if change.after.n else []
    sample = f" ({', '.join([*images, made_here] if made_here else images)})" if images or made_here else ""
    values = measure.show(change.before.value), measure.show(change.after.value)
    if change.gain == 0:
        moved = f"{found.method} keeps {measure.title} at {values[1]}"
    elif change.is_noise:
        moved = f"{found.method} and {found.baseline} are within noise in {measure.title}: {values[1]} and {values[0]}"
    else:
        verb = "raises" if change.after.value > change.before.value else "lowers"
        moved = f"{found.method} {verb} {measure.title} from {values[0]} to {values[1]}"
    return f"{moved} on {found.grid.data}{sample}"


def sentences(found: PairedComparison) -> list[str]:
    """The result in a few sentences: overall, at the highest severity, on clean images, where most is gained."""
    said = [f"{_from_to(found, found.overall)}: {scope(found)}, {_sample(found)}."]
    said[0] = said[0][0].upper() + said[0][1:]
    if found.severest:
        said.append(f"At severity {found.severest[0].severity}, {_from_to(found, found.mean(found.severest))}.")
    if found.clean:
        said.append(f"On clean images, {_from_to(found, found.clean)}.")
    if len(found.corrupted) > 1 and (most := found.changes[found.best]).gain > 0:
        said.append(f"It gains most under {found.best}: {_gain(found, most)}.")
    return said


def losses(found: PairedComparison) -> str:
    """Where the method is worse than the baseline, every cell by name; what may be noise is listed separately."""
    lost = [*([CLEAN_CELL] if found.clean and found.clean.gain < 0 else []), *found.losses]
    noise = [cell for cell in lost if found.changes[cell].is_noise]
    sure = [cell for cell in lost if cell not in noise]
    if not lost:
        return f"It loses to {found.baseline} nowhere: in none of {len(found.corrupted)} cells."
    said = [f"It loses to {found.baseline}{_places(found, sure)}."] if sure else []
    said += [f"It is worse within noise{_places(found, noise)}."] if noise else []
    return " ".join(said)


def method_lines(finding: Finding) -> Iterator[tuple[str, str, str, str]]:
    """Every method against the baseline, on the mean over the cells that both have: mean, difference, p value."""
    measure = finding.grid.measure
    for found in finding.others:
        change = found.overall
        p = show_p(change.p_value).removeprefix("p ").removeprefix("= ")
        noise = ", within noise" if change.is_noise else ""
        gain = measure.show_gain(measure.better * change.gain, change.half)
        yield found.method, measure.with_interval(change.after), f"{gain}{noise}", p or "not known"


def scope(found: PairedComparison) -> str:
    """What the overall mean is taken over."""
    names = list(dict.fromkeys(cell.corruption for cell in found.corrupted))
    if names == [CLEAN]:
        return "clean images"
    severities = sorted({cell.severity for cell in found.corrupted if cell.severity is not None})
    over = f"mean over {len(names)} corruptions" if len(names) > 1 else readable(names[0])
    return over + (f" at {_enumerated(severities)}" if severities else "")


def interval_note(found: PairedComparison) -> str:
    """How the intervals of a comparison were computed, for the notes."""
    if found.overall.half is None:
        return f"{UNKNOWN.capitalize()}: the scores do not say how many images are behind them. {_UNMARKED}"
    return f"± is half of a 95 % interval over test images. {_PAIRED if found.overall.paired else _UNPAIRED} {_CELLS}"


_UNMARKED = "So no winner is marked, and every loss is."
_PAIRED = "Differences are taken image by image (paired)."
_UNPAIRED = (
    "These values are not known image by image, so intervals of means are the means of the cells' intervals, and "
    "differences are taken as between independent samples: both are upper bounds."
)
_CELLS = "Cells are tested one by one, without correction for their number."


def _from_to(found: PairedComparison, change: Change) -> str:
    show = found.grid.measure.show
    values = f"from {show(change.before.value)} to {show(change.after.value)}"
    if change.gain == 0:
        return f"{values}, no better and no worse than {found.baseline}"
    size = found.grid.measure.show_gain(abs(change.gain), change.half).lstrip("+")
    p = f" ({show_p(change.p_value)})" if change.p_value is not None else ""
    noise = ", within noise" if change.is_noise else ""
    return f"{values}, {size} {'worse' if change.gain < 0 else 'better'} than {found.baseline}{p}{noise}"


def _sample(found: PairedComparison) -> str:
    change = found.overall
    number, values = found.grid.measure.number, change.after.seeds
    seeds = f", {len(values)} seeds from {number(min(values))} to {number(max(values))}" if len(values) > 1 else ""
    if change.half is None:
        return f"{UNKNOWN}{seeds}"
    cells = f" in each of {len(found.corrupted)} cells" if len(found.corrupted) > 1 else ""
    return (f"{change.after.n:,} images{cells}" if change.after.n else "95\u00a0% interval") + seeds


def _gain(found: PairedComparison, change: Change) -> str:
    return found.grid.measure.show_gain(change.gain, change.half)


def _places(found: PairedComparison, cells: Sequence[Cell]) -> str:
    named = {cell: f"{cell} ({_gain(found, found.changes[cell])})" for cell in cells}
    corrupted = [name for cell, name in named.items() if cell in found.corrupted]
    clean = [
        f" on {name.replace(CLEAN, 'clean images', 1)}" for cell, name in named.items() if cell not in found.corrupted
    ]
    rest = [f" in {len(corrupted)} of {len(found.corrupted)} cells: {', '.join(corrupted)}"] if corrupted else []
    return " and".join(clean + rest)


def _enumerated(severities: Sequence[int]) -> str:
    *first, last = severities
    if not first:
        return f"severity {last}"
    if len(first) > 1 and last - first[0] == len(first):
        return f"severities {first[0]} to {last}"
    return f"severities {', '.join(map(str, first))} and {last}"


def made_here(scores: Scores) -> str:
    """Whether corrupted images were made rather than read from the published files; nothing if that is not known."""
    origins = [origin for sources in _mappings("sources", scores.provenance) for origin in sources.values()]
    made = sum("made" in str(origin) for origin in origins)
    if not made:
        return ""
    return "corruptions made here" if made == len(origins) else f"{made} of {len(origins)} corruptions made here"


def protocol(scores: Scores) -> list[tuple[str, str]]:
    """What was measured, then what the scores' file says of how: a name and a value each."""
    measured = {
        "data": scores.values("data"),
        "methods": scores.values("method"),
        "metrics": [metric for metric in scores.values("metric") if PARTS not in metric],
        "seeds": scores.values("seed"),
        "scores": len(scores),
    }
    return [*_flat("", measured), *_flat("", scores.provenance)]


def _mappings(name: str, entries: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Everything of that name, at any depth: merged files keep one account each."""
    for key, value in entries.items():
        if isinstance(value, Mapping):
            yield from [value] if key == name else _mappings(name, value)


def _flat(prefix: str, entries: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Nested entries under their full names.

    >>> list(_flat("", {"settings": {"seed": 0, "sizes": [1, 2]}, "command": "x"}))
    [('settings: seed', '0'), ('settings: sizes', '1; 2'), ('command', 'x')]
    """
    for key, value in entries.items():
        name = f"{prefix}: {key}" if prefix else str(key)
        if isinstance(value, Mapping):
            yield from _flat(name, value)
        else:
            yield name, _text(value)


def _text(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(map(_text, value))
    return str(value)
