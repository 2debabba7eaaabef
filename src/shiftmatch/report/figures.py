"""Figures for papers and slides: one function for each kind of plot, scores in, a matplotlib figure out.

Each takes the scores of one data set: `severity_curves(scores.where(data="cifar10-c"))`.
"""

from math import isfinite
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from shiftmatch.errors import InputError
from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.blocks import Block, blocks, worst
from shiftmatch.report.charts import Style, severity_curve, styles_of
from shiftmatch.report.comparison import compare
from shiftmatch.report.findings import BASELINE, METHOD
from shiftmatch.report.grid import Grid, grid_of
from shiftmatch.report.measures import readable
from shiftmatch.report.series import MEAN_SHIFT, calibration_gap, layer_shifts, reliability

COLOURS = ("#6b727d", "#0072b2", "#d55e00", "#00835f", "#b3568a", "#b07c00", "#3f8fbf", "#7a4fb5")
"""Told apart by colour-blind readers too; the same as on the page."""

MARKERS = ("o", "s", "^", "D")
PALE = 0.5
"""How much of a colour is behind numbers, so that they can be read."""

LOSS = "#b3400a"
"""Colour of what is worse than the baseline, and of the frames of the worst cells."""


def severity_curves(
    scores: Scores, *, metric: str = "accuracy", baseline: str = BASELINE, method: str = METHOD
) -> Figure:
    """The mean over the corruptions against the severity, a line for each method; clean images have severity 0."""
    grid = _grid(scores, metric)
    figure, axes = _axes(6.4, 4.0)
    for name, style in styles_of(grid.methods, baseline, method).items():
        curve = severity_curve(grid, name, grid.corruptions)
        if curve:
            axes.plot(list(curve), list(curve.values()), label=_plain(name), **_line(style))
    axes.set(xlabel="severity (0: clean)", ylabel=_titled(grid))
    axes.set_xticks([0, *grid.severities])
    axes.legend(frameon=False, fontsize=8)
    return figure


def heat_map(scores: Scores, *, metric: str = "accuracy") -> Figure:
    """Corruption × method, on the mean over the severities; a frame marks where each method does worst."""
    grid = _grid(scores, metric)
    block = blocks(grid)[0]
    values = np.array([[_number(value) for value in row.values()] for row in block.rows.values()])
    figure, axes = _axes(2.2 + 0.95 * len(grid.methods), 1.4 + 0.28 * len(block.rows))
    axes.imshow(values, aspect="auto", cmap="Blues" if grid.measure.better >= 0 else "Blues_r", alpha=PALE)
    axes.set_xticks(
        range(len(grid.methods)), [_plain(name) for name in grid.methods], rotation=30, ha="right", fontsize=8
    )
    axes.set_yticks(range(len(block.rows)), [readable(name) for name in block.rows], fontsize=8)
    _write_cells(axes, block, grid)
    axes.set_title(_titled(grid), fontsize=10)
    return figure


def gain_bars(scores: Scores, *, metric: str = "accuracy", baseline: str = BASELINE, method: str = METHOD) -> Figure:
    """How much better the method is than the baseline under each corruption; losses point to the left."""
    found = compare(_grid(scores, metric), baseline, method)
    if found is None:
        raise InputError(
            f"{method!r} and {baseline!r} share no {metric} that could be compared. The scores have the methods "
            f"{', '.join(map(repr, scores.values('method')))}; name two of them with baseline= and method=."
        )
    measure, gains = found.grid.measure, dict(reversed(found.gains().items()))
    figure, axes = _axes(6.4, 1.0 + 0.27 * len(gains))
    colours = [COLOURS[1] if gain >= 0 else LOSS for gain in gains.values()]
    drawn = axes.barh(range(len(gains)), [measure.scale * gain for gain in gains.values()], color=colours)
    axes.bar_label(drawn, [measure.number(gain, sign=True) for gain in gains.values()], padding=3, fontsize=8)
    axes.set_yticks(range(len(gains)), [readable(name) for name in gains], fontsize=8)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.margins(x=0.12)
    points = " (points)" if measure.percent else ""
    axes.set_xlabel(_plain(f"{method} against {baseline}: gain in {measure.title}{points}"))
    return figure


def reliability_diagram(scores: Scores, *, baseline: str = BASELINE, method: str = METHOD) -> Figure:
    """Accuracy against confidence, pooled over the corrupted sets; areas are shares of the predictions."""
    _check_one_set(scores)
    curves = {name: bins for name, bins in reliability(scores).items() if bins}
    if not curves:
        raise InputError("The scores hold no reliability curves. Evaluate with the metric 'reliability' to have them.")
    styles = styles_of(list(curves), baseline, method)
    figure, axes = _axes(4.8, 4.8)
    axes.plot([0, 1], [0, 1], "--", color="grey", linewidth=1)
    for name, bins in curves.items():
        x, y = [part.confidence for part in bins], [part.accuracy for part in bins]
        colour = COLOURS[styles[name].colour]
        axes.plot(x, y, color=colour, linewidth=1, label=f"{_plain(name)} (error {100 * calibration_gap(bins):.1f} %)")
        axes.scatter(x, y, s=[300 * part.share for part in bins], color=colour, alpha=0.6)
    axes.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.legend(frameon=False, fontsize=8)
    return figure


def layer_shift(scores: Scores) -> Figure:
    """How far the features of each site have moved: a line for each corruption, a strong one for their mean."""
    _check_one_set(scores)
    shifts = layer_shifts(scores)
    if not shifts:
        raise InputError("The scores hold no shifts of layers. Evaluate with shifts to have them.")
    sites = list(next(iter(shifts.values())))
    figure, axes = _axes(6.4, 4.0)
    axes.set_prop_cycle(color=colormaps["tab20"].colors)  # type: ignore[attr-defined]
    for name, row in shifts.items():
        width = 3.0 if name == MEAN_SHIFT else 1.0
        axes.plot(range(len(sites)), [row.get(site, np.nan) for site in sites], label=readable(name), linewidth=width)
    axes.set_xticks(range(len(sites)), sites, rotation=60, ha="right", fontsize=7)
    axes.set(ylabel="shift, in units of the spread in training", ylim=(0, None))
    axes.legend(frameon=False, fontsize=6, ncols=2)
    return figure


def _grid(scores: Scores, metric: str) -> Grid:
    _check_one_set(scores)
    if metric not in scores.values("metric"):
        raise InputError(f"The scores have no metric {metric!r}; they have {', '.join(scores.values('metric'))}.")
    return grid_of(scores, scores.values("data")[0], metric)


def _check_one_set(scores: Scores) -> None:
    if len(sets := scores.values("data")) != 1:
        raise InputError(
            f"A figure shows one data set; these scores have {', '.join(map(repr, sets)) or 'none'}. "
            "Choose one with scores.where(data=...)."
        )


def _axes(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _line(style: Style) -> dict[str, Any]:
    dashes = "--" if style.dashed else "-"
    return {"color": COLOURS[style.colour], "marker": MARKERS[style.shape], "linestyle": dashes, "markersize": 5}


def _plain(text: str) -> str:
    """Text in which nothing is taken for a formula."""
    return text.replace("$", r"\$")


def _titled(grid: Grid) -> str:
    return grid.measure.title + (" (%)" if grid.measure.percent else "")


def _write_cells(axes: Axes, block: Block, grid: Grid) -> None:
    marked = worst(block, grid.measure.better)
    for y, (name, row) in enumerate(block.rows.items()):
        for x, (method, value) in enumerate(row.items()):
            axes.text(x, y, grid.measure.number(value), ha="center", va="center", fontsize=8)
            if (name, method) in marked:
                axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, edgecolor=LOSS, linewidth=1.5))


def _number(value: float | None) -> float:
    return np.nan if value is None or not isfinite(value) else value
