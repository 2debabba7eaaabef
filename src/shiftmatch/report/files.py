"""The files of a report but for its text: scores and how they were made, pictures, and every figure there is."""

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from shiftmatch.errors import DataNotFoundError, InputError
from shiftmatch.evaluation.scores import Key, Score, Scores
from shiftmatch.report import figures
from shiftmatch.report.grid import PARTS
from shiftmatch.report.measures import layer_shifts, reliability
from shiftmatch.report.summary import BASELINE, METHOD, Finding, find, method_in
from shiftmatch.utils.files import atomic_path

PICTURE = ".before-after"
"""What follows the name of the scores in the name of their picture."""

Draw = Callable[[], Figure]
DOTS_PER_INCH = 200
_WITHOUT_DATE: dict[str, dict[str, None]] = {"svg": {"Date": None}, "png": {"Software": None}}
"""So that the same figure gives the same file; likewise the salt of the names inside it."""

_VARIABLES = {colour: f"var(--c{index})" for index, colour in enumerate(figures.COLOURS)} | {
    figures.INK: "var(--ink)",
    figures.SOFT: "var(--soft)",
    figures.LINE: "var(--line)",
    figures.LOSS: "var(--loss)",
}
"""What a page calls the colours of figures, so that they follow its light and dark."""


def open_scores(paths: Sequence[Path]) -> Scores:
    """The scores of one or several files as one table; of several, each keeps its account of how it was made."""
    for path in paths:
        if not path.is_file():
            raise DataNotFoundError(f"There is no file {path}. Give CSV files that shiftmatch evaluate wrote.")
    every = {path: Scores.load(path) for path in dict.fromkeys(paths)}
    if len(every) == 1:
        return next(iter(every.values()))
    rows: dict[Score, None] = {}
    correct: dict[Key, NDArray[np.bool_]] = {}
    for scores in every.values():
        rows |= dict.fromkeys(scores)
        correct |= scores.correct
    _check_agreement(list(rows))
    return Scores(list(rows), {path.stem: scores.provenance for path, scores in every.items()}, correct)


def pictures_beside(paths: Sequence[Path]) -> list[Path]:
    """The pictures that lie beside the files, named as they are."""
    places = (path.with_name(f"{path.stem}{PICTURE}.png") for path in dict.fromkeys(paths))
    return [place for place in places if place.is_file()]


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


def _check_agreement(rows: Sequence[Score]) -> None:
    """Refuse two values of one cell: their mean would be the result of neither file."""
    known: dict[Score, float] = {}
    for row in rows:
        cell = row._replace(value=0.0, n=None, stderr=None)
        if known.setdefault(cell, row.value) != row.value:
            where = (
                f"{row.method} on {row.data}, {row.corruption}, severity {row.severity}, {row.metric}, seed {row.seed}"
            )
            raise InputError(
                f"The files disagree: {where} is {known[cell]:g} in one and {row.value:g} in another. "
                "Report them separately, or give their data different names."
            )


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


def write_figures(
    scores: Scores,
    folder: str | PathLike[str],
    *,
    kind: Literal["svg", "png"] = "svg",
    baseline: str = BASELINE,
    method: str = METHOD,
) -> list[Path]:
    """Write each figure that there are scores for, named by data set, metric and kind of plot."""
    written = []
    for name, figure in _figures(scores, baseline, method):
        path = Path(folder) / f"{name}.{kind}"
        save_figure(figure, path)
        written.append(path)
    return written


def save_figure(figure: Figure, path: Path) -> None:
    """Write an SVG or PNG file; the same figure gives the same bytes."""
    kind = path.suffix.removeprefix(".")
    with atomic_path(path) as temporary, mpl.rc_context(figures.STYLE | {"svg.hashsalt": "shiftmatch"}):
        figure.savefig(temporary, format=kind, dpi=DOTS_PER_INCH, metadata=_WITHOUT_DATE[kind])


def inline_svg(figure: Figure, label: str) -> str:
    """SVG that stands inside a page, has its colours, and is read aloud as `label`, which no other figure may have."""
    buffer = io.StringIO()
    with mpl.rc_context(figures.STYLE | {"svg.hashsalt": label, "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata=_WITHOUT_DATE["svg"])
    drawn = re.sub(r"<metadata>.*?</metadata>", "", buffer.getvalue(), flags=re.DOTALL)
    size = re.search(r'viewBox="[^"]*"', drawn)
    assert size is not None
    opening = f'<svg class="plot" {size[0]} role="img" aria-label="{escape(label)}" xmlns:xlink="http://www.w3.org/1999/xlink">'
    content = drawn[drawn.index(">", size.start()) + 1 :]
    return opening + re.sub("|".join(_VARIABLES), lambda found: _VARIABLES[found[0]], content)


def figures_of(finding: Finding, scores: Scores, baseline: str, method: str) -> dict[str, Draw]:
    """What draws the figures of one metric, by kind; `scores` are those of its data set."""
    metric = finding.grid.measure.name
    kinds: dict[str, Callable[..., Figure]] = {}
    if len(finding.grid.severities) > 1:
        kinds |= {"severity curves": figures.severity_curves, "severity panels": figures.severity_panels}
    kinds["heat map"] = figures.heat_map
    if finding.comparison:
        kinds["gains"] = figures.gain_bars
    return {
        kind: partial(plot, scores, metric=metric, baseline=baseline, method=method) for kind, plot in kinds.items()
    }


def figures_of_data(scores: Scores, baseline: str, method: str) -> dict[str, Draw]:
    """What draws the figures of one data set that belong to no single metric, by kind."""
    kinds: dict[str, Draw] = {}
    if any(reliability(scores).values()):
        kinds["reliability"] = partial(figures.reliability_diagram, scores, baseline=baseline, method=method)
    if layer_shifts(scores):
        kinds["layer shift"] = partial(figures.layer_shift, scores)
    return kinds


def _figures(scores: Scores, baseline: str, method: str) -> Iterator[tuple[str, Figure]]:
    method = method_in(scores.values("method"), method)
    for finding in find(scores, baseline, method):
        grid = finding.grid
        for kind, draw in figures_of(finding, scores.where(data=grid.data), baseline, method).items():
            yield _slug(f"{grid.data} {grid.measure.name} {kind}"), draw()
    for data in scores.values("data"):
        for kind, draw in figures_of_data(scores.where(data=data), baseline, method).items():
            yield _slug(f"{data} {kind}"), draw()


def _slug(name: str) -> str:
    """A name for a file.

    >>> _slug("resnet20 · cifar10-c accuracy heat map")
    'resnet20-cifar10-c-accuracy-heat-map'
    """
    return re.sub(r"\W+", "-", name).strip("-")
