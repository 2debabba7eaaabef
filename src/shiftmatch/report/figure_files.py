"""Every figure that scores can fill, as PNG or SVG files."""

import re
from collections.abc import Iterator
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Literal

import matplotlib as mpl
from matplotlib.figure import Figure

from shiftmatch.evaluation.scores import Scores
from shiftmatch.report import figures
from shiftmatch.report.findings import BASELINE, METHOD, Finding, find
from shiftmatch.report.series import layer_shifts, reliability
from shiftmatch.utils.files import atomic_path

DOTS_PER_INCH = 200
_WITHOUT_DATE: dict[str, dict[str, None]] = {"svg": {"Date": None}, "png": {"Software": None}}
"""So that the same figure gives the same file; likewise the salt of the names inside it."""


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
    with atomic_path(path) as temporary, mpl.rc_context({"svg.hashsalt": "shiftmatch"}):
        figure.savefig(temporary, format=kind, dpi=DOTS_PER_INCH, metadata=_WITHOUT_DATE[kind])


def _figures(scores: Scores, baseline: str, method: str) -> Iterator[tuple[str, Figure]]:
    for finding in find(scores, baseline, method):
        grid = finding.grid
        for kind, figure in _of_finding(finding, scores.where(data=grid.data), baseline, method):
            yield _slug(f"{grid.data} {grid.measure.name} {kind}"), figure
    for data in scores.values("data"):
        own = scores.where(data=data)
        if any(reliability(own).values()):
            yield _slug(f"{data} reliability"), figures.reliability_diagram(own, baseline=baseline, method=method)
        if layer_shifts(own):
            yield _slug(f"{data} layer shift"), figures.layer_shift(own)


def _of_finding(finding: Finding, scores: Scores, baseline: str, method: str) -> Iterator[tuple[str, Figure]]:
    metric = finding.grid.measure.name
    if len(finding.grid.severities) > 1:
        curves = partial(figures.severity_curves, baseline=baseline, method=method)
        yield "severity curves", curves(scores, metric=metric)
    yield "heat map", figures.heat_map(scores, metric=metric)
    if finding.comparison:
        yield "gains", figures.gain_bars(scores, metric=metric, baseline=baseline, method=method)


def _slug(name: str) -> str:
    """A name for a file.

    >>> _slug("resnet20 · cifar10-c accuracy heat map")
    'resnet20-cifar10-c-accuracy-heat-map'
    """
    return re.sub(r"\W+", "-", name).strip("-")
