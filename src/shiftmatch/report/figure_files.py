"""Every figure that scores can fill: as PNG or SVG files, or as SVG inside a page."""

import io
import re
from collections.abc import Callable, Iterator
from functools import partial
from html import escape
from os import PathLike
from pathlib import Path
from typing import Literal

import matplotlib as mpl
from matplotlib.figure import Figure

from shiftmatch.evaluation.scores import Scores
from shiftmatch.report import figures
from shiftmatch.report.grid import layer_shifts, reliability
from shiftmatch.report.summary import BASELINE, METHOD, Finding, find, method_in
from shiftmatch.utils.files import atomic_path

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
