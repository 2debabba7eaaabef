"""Figures for papers, slides and pages: one function for each kind of plot, scores in, a matplotlib figure out.

Each takes the scores of one data set: `severity_curves(scores.where(data="cifar10-c"))`. Bands and whiskers are 95 %
intervals, where those are known.
"""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from math import ceil, isfinite
from pathlib import Path
from typing import Any

import numpy as np

from shiftmatch.errors import InputError, ShiftMatchError
from shiftmatch.evaluation.scores import Scores
from shiftmatch.matching.diagnosis import Diagnosis
from shiftmatch.report.grid import CLEAN_CELL, Block, Cell, Grid, blocks, grid_of
from shiftmatch.report.measures import MEAN_SHIFT, Bin, Estimate, calibration_gap, layer_shifts, readable, reliability
from shiftmatch.report.summary import BASELINE, METHOD, compare, method_in
from shiftmatch.utils.files import atomic_path

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle
except ModuleNotFoundError as error:
    raise ShiftMatchError("Pages and figures need matplotlib: pip install 'shiftmatch[report]'.") from error

COLOURS = ("#6b727d", "#0072b2", "#d55e00", "#00835f", "#b3568a", "#b07c00", "#3f8fbf", "#7a4fb5")
"""Told apart by colour-blind readers too; pages have brighter ones for the dark."""

INK, SOFT, LINE, LOSS = "#1b1f24", "#5b616b", "#d9dce1", "#b3400a"
"""Of text, of what is behind it, of thin lines, and of what is worse than the baseline."""

MARKERS = ("o", "s", "^", "D")
PALE, BAND = 0.5, 0.15
"""How much of a colour is behind numbers, and how much of it a band has."""

WIDTH, COLUMNS, LETTERS = 4.6, 3, 66
"""Of a figure: inches, such that text can be read on a phone; panels side by side; letters in a line of its legend."""

_INKED = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
STYLE: dict[Any, Any] = dict.fromkeys(_INKED, INK) | {
    "font.size": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
Draw = Callable[[], Figure]
Kind = dict[str, Any]
"""How a method is drawn everywhere: its colour, the shape of its points, its line."""

DOTS_PER_INCH = 200
_WITHOUT_DATE: dict[str, dict[str, None]] = {"svg": {"Date": None}, "png": {"Software": None}}
"""So that the same figure gives the same file; likewise the salt of the names inside it."""

_VARIABLES = {colour: f"var(--c{index})" for index, colour in enumerate(COLOURS)}
_VARIABLES |= {INK: "var(--ink)", SOFT: "var(--soft)", LINE: "var(--line)", LOSS: "var(--loss)"}
"""What a page calls the colours of figures, so that they follow its light and dark."""


@mpl.rc_context(STYLE)
def severity_curves(
    scores: Scores, *, metric: str = "accuracy", baseline: str = BASELINE, method: str = METHOD
) -> Figure:
    """The mean over the corruptions against the severity, a line for each method; clean images have severity 0."""
    grid = _grid(scores, metric)
    figure, axes = _axes(WIDTH, 2.8)
    _draw_curves(axes, grid, grid.corruptions, styles_of(grid.methods, baseline, method))
    axes.set(xlabel="severity (0: clean)", ylabel=_titled(grid))
    _legend(figure, axes)
    return figure


@mpl.rc_context(STYLE)
def severity_panels(
    scores: Scores, *, metric: str = "accuracy", baseline: str = BASELINE, method: str = METHOD
) -> Figure:
    """The value against the severity, a panel for each corruption."""
    grid = _grid(scores, metric)
    figure, panels = _panels(len(grid.corruptions), margin=0.3, height=1.2)
    for axes, name in zip(panels, grid.corruptions, strict=True):
        _draw_curves(axes, grid, [name], styles_of(grid.methods, baseline, method), markersize=2.5, linewidth=1)
        axes.set_title(_plain(readable(name)), fontsize=8)
    _legend(figure, figure.axes[0])
    return figure


@mpl.rc_context(STYLE)
def heat_map(scores: Scores, *, metric: str = "accuracy", baseline: str = BASELINE, method: str = METHOD) -> Figure:
    """Corruption × method, on the mean over the severities; a frame marks where each method does worst.

    All methods are shown alike; `method` is taken so that all plots of a metric are called alike.
    """
    del method
    grid = _grid(scores, metric)
    block = blocks(grid, baseline)[0]
    values = [[_number(found.value if found else None) for found in row.values.values()] for row in block.rows]
    figure, axes = _axes(2.2 + 0.95 * len(grid.methods), 1.4 + 0.36 * len(block.rows))
    axes.imshow(np.array(values), aspect="auto", cmap="Blues" if grid.measure.better >= 0 else "Blues_r", alpha=PALE)
    axes.set_xticks(range(len(grid.methods)), [_plain(name) for name in grid.methods], rotation=30, ha="right")
    axes.set_yticks(range(len(block.rows)), [_plain(readable(row.name)) for row in block.rows])
    _write_cells(axes, block, grid)
    axes.set_title(_titled(grid), fontsize=10)
    return figure


@mpl.rc_context(STYLE)
def mean_bars(scores: Scores, *, metric: str = "accuracy", method: str = METHOD) -> Figure:
    """The mean over the corruptions, a bar for each method; the method that is looked at has a colour of its own."""
    grid = _grid(scores, metric)
    cells = grid.corrupted or list(grid.cells)
    found = {name: estimate for name in reversed(grid.methods) if (estimate := grid.estimate(name, cells))}
    colours = [COLOURS[name == method] for name in found]
    return _bars(grid, {_plain(name): value for name, value in found.items()}, colours, _titled(grid), sign=False)


@mpl.rc_context(STYLE)
def gain_bars(scores: Scores, *, metric: str = "accuracy", baseline: str = BASELINE, method: str = METHOD) -> Figure:
    """How much better the method is than the baseline under each corruption; losses point to the left."""
    method = method_in(scores.values("method"), method)
    found = compare(_grid(scores, metric), baseline, method)
    if found is None:
        raise InputError(
            f"{method!r} and {baseline!r} share no {metric} that could be compared. The scores have the methods "
            f"{', '.join(map(repr, scores.values('method')))}; name two of them with baseline= and method=."
        )
    gains = {
        readable(name): Estimate(change.gain, change.gain - half, change.gain + half)
        if (half := change.half) is not None
        else Estimate(change.gain)
        for name, change in reversed(found.gains().items())
    }
    colours = [COLOURS[1] if gain.value >= 0 else LOSS for gain in gains.values()]
    points = " (points)" if found.grid.measure.percent else ""
    title = f"{method} against {baseline}:\ngain in {found.grid.measure.title}{points}"
    return _bars(found.grid, {_plain(name): gain for name, gain in gains.items()}, colours, _plain(title), sign=True)


@mpl.rc_context(STYLE)
def reliability_diagram(scores: Scores, *, baseline: str = BASELINE, method: str = METHOD) -> Figure:
    """Accuracy against confidence, pooled over the corrupted sets; areas are shares of the predictions."""
    _check_one_set(scores)
    curves = {name: bins for name, bins in reliability(scores).items() if bins}
    if not curves:
        raise InputError("The scores hold no reliability curves. Evaluate with the metric 'reliability' to have them.")
    styles = styles_of(list(curves), baseline, method)
    figure, axes = _axes(WIDTH, 4.2)
    axes.plot([0, 1], [0, 1], "--", color=SOFT, linewidth=1)
    for name, bins in curves.items():
        x, y = [part.confidence for part in bins], [part.accuracy for part in bins]
        colour, label = styles[name]["color"], f"{_plain(name)} (error {100 * calibration_gap(bins):.1f} %)"
        axes.errorbar(x, y, yerr=_bin_whiskers(bins), color=colour, linewidth=1, elinewidth=0.8, label=label)
        axes.scatter(x, y, s=[150 * part.share for part in bins], color=colour, alpha=0.6)
    axes.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    _legend(figure, axes)
    return figure


@mpl.rc_context(STYLE)
def layer_shift(scores: Scores) -> Figure:
    """How far the features of each site have moved: a line for each corruption, a strong one for their mean."""
    _check_one_set(scores)
    shifts = layer_shifts(scores)
    if not shifts:
        raise InputError("The scores hold no shifts of layers. Evaluate with shifts to have them.")
    sites = list(next(iter(shifts.values())))
    figure, axes = _axes(WIDTH, 3.0)
    for index, (name, row) in enumerate(shifts.items()):
        values = [row.get(site, np.nan) for site in sites]
        strong: Kind = {"linewidth": 2.5, "color": INK} if name == MEAN_SHIFT else {"linewidth": 1}
        axes.plot(values, label=_plain(readable(name)), **(_kind(index) | {"markersize": 3} | strong))
    axes.set_xticks(range(len(sites)), sites, rotation=60, ha="right", fontsize=7)
    axes.set(ylabel="shift, in units of the spread in training", ylim=(0, None))
    _legend(figure, axes)
    return figure


@mpl.rc_context(STYLE)
def spectra(diagnosis: Diagnosis) -> Figure:
    """The energy of a batch over that of training against the frequency, a panel for each site that has space.

    The band is the 95 % interval of the mean over channels; a red title is that of a site beyond sampling error.

    Args:
        diagnosis: what `shiftmatch.diagnose` returned.

    >>> import torch, shiftmatch as sm
    >>> net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten())
    >>> images = torch.randn(300, 3, 8, 8)
    >>> spectra(sm.diagnose(net, sm.fit(net, images[:200]), images[200:]))
    <Figure size ...>
    """
    sites = {name: found for name, found in diagnosis.sites.items() if len(found.frequency) > 1}
    if not sites:
        raise InputError("No site of this diagnosis has a spectrum: its features have no rows and columns.")
    figure, panels = _panels(len(sites), margin=0.6, height=1.1)
    for axes, (name, found) in zip(panels, sites.items(), strict=True):
        frequency, gain, error = (x.cpu().numpy() for x in (found.frequency, found.gain.mean(0), found.error))
        axes.axhline(1, color=LINE)
        axes.fill_between(frequency, np.exp(gain - 1.96 * error), np.exp(gain + 1.96 * error), alpha=BAND)
        axes.plot(frequency, np.exp(gain), color=COLOURS[1], marker="o", markersize=2.5, linewidth=1)
        axes.set_yscale("log")
        axes.set_title(_plain(name), fontsize=8, color=LOSS if name in diagnosis.worst else INK)
    figure.supxlabel("cycles per pixel", fontsize=8)
    figure.supylabel("energy, over that of training", fontsize=8)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write an SVG or PNG file; the same figure gives the same bytes."""
    kind = path.suffix.removeprefix(".")
    with atomic_path(path) as temporary, mpl.rc_context(STYLE | {"svg.hashsalt": "shiftmatch"}):
        figure.savefig(temporary, format=kind, dpi=DOTS_PER_INCH, metadata=_WITHOUT_DATE[kind])


def inline_svg(figure: Figure, label: str) -> str:
    """SVG that stands inside a page, has its colours, and is read aloud as `label`, which no other figure may have."""
    buffer = io.StringIO()
    with mpl.rc_context(STYLE | {"svg.hashsalt": label, "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata=_WITHOUT_DATE["svg"])
    drawn = re.sub(r"<metadata>.*?</metadata>", "", buffer.getvalue(), flags=re.DOTALL)
    size = re.search(r'viewBox="[^"]*"', drawn)
    assert size is not None
    opening = f'<svg class="plot" {size[0]} role="img" aria-label="{escape(label)}" xmlns:xlink="http://www.w3.org/1999/xlink">'
    content = drawn[drawn.index(">", size.start()) + 1 :]
    return opening + re.sub("|".join(_VARIABLES), lambda found: _VARIABLES[found[0]], content)


def styles_of(methods: Sequence[str], baseline: str, method: str) -> dict[str, Kind]:
    """The baseline has the first colour, the method that is looked at the second, the others what is left, then dashes.

    >>> [COLOURS.index(kind["color"]) for kind in styles_of(["other", "ours", "plain"], "plain", "ours").values()]
    [2, 1, 0]
    """
    order = [baseline, method, *(name for name in methods if name not in (baseline, method))]
    return {name: _kind(order.index(name)) for name in methods}


def severity_curve(grid: Grid, method: str, corruptions: Sequence[str]) -> dict[int, Estimate]:
    """Severity -> mean over the corruptions; clean images have severity 0."""
    cells = {0: [CLEAN_CELL]} | {s: [Cell(name, s) for name in corruptions] for s in grid.severities}
    means = {severity: grid.estimate(method, own) for severity, own in cells.items()}
    return {severity: found for severity, found in means.items() if found is not None and isfinite(found.value)}


def _kind(index: int) -> Kind:
    return {
        "color": COLOURS[index % len(COLOURS)],
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": "-" if index < len(COLOURS) else "--",
        "markersize": 4,
    }


def _draw_curves(
    axes: Axes, grid: Grid, corruptions: Sequence[str], styles: Mapping[str, Kind], **changed: Any
) -> None:
    scale = grid.measure.scale
    for name, kind in styles.items():
        curve = severity_curve(grid, name, corruptions)
        axes.plot(list(curve), [scale * point.value for point in curve.values()], label=_plain(name), **kind | changed)
        low, high = ([scale * _number(getattr(point, end)) for point in curve.values()] for end in ("low", "high"))
        axes.fill_between(list(curve), low, high, color=kind["color"], alpha=BAND, linewidth=0)
    axes.set_xticks([0, *grid.severities])


def _bars(grid: Grid, values: Mapping[str, Estimate], colours: Sequence[str], title: str, *, sign: bool) -> Figure:
    scale, number = grid.measure.scale, grid.measure.number
    figure, axes = _axes(WIDTH, 0.8 + 0.27 * len(values))
    halves = [scale * (found.half or 0.0) for found in values.values()]
    whiskers: Any = {"xerr": halves, "error_kw": {"ecolor": INK, "elinewidth": 1, "capsize": 2}} if any(halves) else {}
    drawn = axes.barh(list(values), [scale * found.value for found in values.values()], color=colours, **whiskers)
    texts = [number(each.value, sign=sign) + grid.measure.half(each.half) for each in values.values()]
    for bar, text in zip(drawn, texts, strict=True):  # in a column of their own, where no bar and no whisker is
        axes.text(1.02, bar.get_y() + bar.get_height() / 2, text, transform=axes.get_yaxis_transform(), va="center")
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_xlabel(title)
    return figure


def _bin_whiskers(bins: Sequence[Bin]) -> Any:
    known = [part.interval for part in bins]
    if not all(known):
        return None
    ends = [
        (part.accuracy - each.low, each.high - part.accuracy) for part, each in zip(bins, known, strict=True) if each
    ]
    return np.clip(np.array(ends).T, 0, None)


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
    return figure, figure.add_subplot()


def _panels(count: int, *, margin: float, height: float) -> tuple[Figure, list[Axes]]:
    """So many panels of one scale, three in a row; what the last row has too much is hidden."""
    rows = ceil(count / COLUMNS)
    figure = Figure(figsize=(WIDTH, margin + height * rows), layout="constrained")
    panels = list(figure.subplots(rows, COLUMNS, sharex=True, sharey=True, squeeze=False).flat)
    for axes in panels[count:]:
        axes.set_visible(False)
    return figure, panels[:count]


def _legend(figure: Figure, axes: Axes) -> None:
    """Below the plot, in as many columns as fit; the figure grows by its rows."""
    handles, labels = axes.get_legend_handles_labels()
    columns = max(1, min(COLUMNS, LETTERS // max(6 + len(label) for label in labels)))
    figure.set_figheight(figure.get_figheight() + 0.17 * ceil(len(labels) / columns))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=8)


def _plain(text: str) -> str:
    """Text in which nothing is taken for a formula."""
    return text.replace("$", r"\$")


def _titled(grid: Grid) -> str:
    return grid.measure.title + (" (%)" if grid.measure.percent else "")


def _write_cells(axes: Axes, block: Block, grid: Grid) -> None:
    marked = block.worst(grid.measure.better)
    for y, row in enumerate(block.rows):
        for x, (method, found) in enumerate(row.values.items()):
            text = grid.measure.with_interval(found).replace(" ± ", "\n± ")
            weight = "bold" if method == row.leader else "normal"
            axes.text(x, y, text, ha="center", va="center", fontsize=7, weight=weight, linespacing=0.95)
            if (row.name, method) in marked:
                axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, edgecolor=LOSS, linewidth=1.5))


def _number(value: float | None) -> float:
    return value if value is not None and isfinite(value) else np.nan
