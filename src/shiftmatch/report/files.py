"""The files of a report but for its text: the scores it is made of, pictures, and every figure there is."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from shiftmatch.errors import DataNotFoundError, InputError
from shiftmatch.evaluation.scores import Key, Score, Scores
from shiftmatch.report import figures
from shiftmatch.report.figures import Draw, save_figure
from shiftmatch.report.measures import layer_shifts, reliability
from shiftmatch.report.summary import BASELINE, METHOD, Finding, find, method_in

PICTURE = ".before-after"
"""What follows the name of the scores in the name of their picture."""


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
    for name, draw in _figures(scores, baseline, method):
        path = Path(folder) / f"{name}.{kind}"
        save_figure(draw(), path)
        written.append(path)
    return written


def figures_of(finding: Finding, scores: Scores, baseline: str, method: str) -> dict[str, Draw]:
    """What draws the figures of one metric, by kind; `scores` are those of its data set."""
    metric = finding.grid.measure.name
    kinds: dict[str, Callable[..., Any]] = {}
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


def _figures(scores: Scores, baseline: str, method: str) -> Iterator[tuple[str, Draw]]:
    method = method_in(scores.values("method"), method)
    for finding in find(scores, baseline, method):
        grid = finding.grid
        for kind, draw in figures_of(finding, scores.where(data=grid.data), baseline, method).items():
            yield _slug(f"{grid.data} {grid.measure.name} {kind}"), draw
    for data in scores.values("data"):
        for kind, draw in figures_of_data(scores.where(data=data), baseline, method).items():
            yield _slug(f"{data} {kind}"), draw


def _slug(name: str) -> str:
    """A name for a file.

    >>> _slug("resnet20 · cifar10-c accuracy heat map")
    'resnet20-cifar10-c-accuracy-heat-map'
    """
    return re.sub(r"\W+", "-", name).strip("-")
