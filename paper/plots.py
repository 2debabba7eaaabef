"""Plots that the report has no use for: a panel for each corruption, bars in groups, one metric against another."""

from collections.abc import Sequence
from math import ceil
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper.claims import CLEAN, Z, mean
from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.figures import COLOURS, MARKERS

COLUMNS = 4
SHADES = (0.35, 0.65, 1.0)
"""Of the bars of a group: without normalisation, with batchnorm, with matching."""


def per_corruption(scores: Scores, metric: str) -> Figure:
    """Metric against severity, a panel for each corruption and a line for each method."""
    rows = scores.where(metric=metric)
    corruptions = [name for name in rows.values("corruption") if name != CLEAN]
    lines = ceil(len(corruptions) / COLUMNS)
    figure = Figure(figsize=(2.6 * COLUMNS, 2.1 * lines + 0.8), layout="constrained")
    panels = figure.subplots(lines, COLUMNS, sharex=True, sharey=True, squeeze=False).flat
    for axes, corruption in zip(panels, corruptions, strict=False):
        _curves(axes, rows.where(corruption=[CLEAN, corruption]))
        axes.set_title(corruption.replace("_", " "), fontsize=9)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=COLUMNS, frameon=False, fontsize=8)
    figure.supylabel(metric.replace("_", "-"), fontsize=9)
    return figure


def grouped_bars(scores: Scores, groups: Sequence[Sequence[str]], metric: str = "accuracy") -> Figure:
    """The mean over the corruptions at each severity: a colour for each group, a shade for each method in it."""
    severities = [severity for severity in scores.values("severity") if severity is not None]
    methods = [(name, COLOURS[1 + g], SHADES[m]) for g, group in enumerate(groups) for m, name in enumerate(group)]
    figure = Figure(figsize=(8.0, 3.6), layout="constrained")
    axes = figure.add_subplot()
    width = 0.85 / len(methods)
    for index, (name, colour, shade) in enumerate(methods):
        places = [place + (index - (len(methods) - 1) / 2) * width for place in range(len(severities))]
        found = [mean(scores, name, severity, metric=metric) for severity in severities]
        errors = [Z * (each.stderr or 0.0) for each in found]
        axes.bar(places, [each.value for each in found], width, color=colour, alpha=shade, label=name)
        axes.errorbar(places, [each.value for each in found], errors, fmt="none", ecolor="black", elinewidth=0.6)
    axes.set_xticks(range(len(severities)), map(str, severities))
    axes.set(xlabel="severity", ylabel=metric.replace("_", "-"))
    axes.legend(frameon=False, fontsize=7, ncols=len(groups))
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def against(scores: Scores, x: str, y: str) -> Figure:
    """One metric against another, a line for each method from clean images to the highest severity."""
    figure = Figure(figsize=(5.0, 4.0), layout="constrained")
    axes = figure.add_subplot()
    severities = [severity for severity in scores.values("severity") if severity is not None]
    for index, method in enumerate(scores.values("method")):
        points = [
            [
                mean(scores, method, metric=metric, clean=True).value,
                *(mean(scores, method, s, metric=metric).value for s in severities),
            ]
            for metric in (x, y)
        ]
        axes.plot(*points, label=method, **_style(index))
    axes.set(xlabel=x.replace("_", "-"), ylabel=y.replace("_", "-"))
    axes.legend(frameon=False, fontsize=8)
    return figure


def bars_by_set(scores: Scores, metric: str) -> Figure:
    """One metric of every method, in groups by data set."""
    rows, sets = scores.where(metric=metric), scores.values("data")
    figure = Figure(figsize=(1.5 + 2.4 * len(sets), 3.4), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(sets), sharey=True, squeeze=False).flat, sets, strict=True):
        values = {row.method: row.value for row in rows.where(data=name)}
        errors = [Z * (row.stderr or 0.0) for row in rows.where(data=name)]
        colours = [COLOURS[index % len(COLOURS)] for index in range(len(values))]
        axes.bar(range(len(values)), list(values.values()), yerr=errors, color=colours)
        axes.set_xticks(range(len(values)), list(values), rotation=40, ha="right", fontsize=7)
        axes.set_title(name, fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supylabel(metric, fontsize=9)
    return figure


def _curves(axes: Axes, rows: Scores) -> None:
    for index, method in enumerate(rows.values("method")):
        points = sorted((row.severity or 0, row.value) for row in rows.where(method=method))
        axes.plot([x for x, _ in points], [y for _, y in points], label=method, linewidth=1, **_style(index))
    axes.spines[["top", "right"]].set_visible(False)


def _style(index: int) -> dict[str, Any]:
    return {
        "color": COLOURS[index % len(COLOURS)],
        "marker": MARKERS[index % len(MARKERS)],
        "markersize": 3,
        "linestyle": "-" if index < len(COLOURS) else "--",
    }
