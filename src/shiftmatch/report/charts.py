"""The geometry of charts that pages draw as SVG: values in, positions out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10
from typing import NamedTuple

from shiftmatch.report.grid import CLEAN, Cell, Grid
from shiftmatch.report.measures import Measure, span
from shiftmatch.report.series import Bin

COLOURS, SHAPES = 8, 4
"""How many different ones there are."""

LABEL_GAP = 17.0
"""Between the middles of labels at the ends of lines."""


@dataclass(frozen=True)
class Point:
    x: float
    y: float
    tip: str
    size: float = 4.0


class Style(NamedTuple):
    """How a method is drawn everywhere: number of its colour, shape of its points, whether its line is dashed."""

    colour: int
    shape: int
    dashed: bool


@dataclass(frozen=True)
class Line:
    name: str
    style: Style
    points: Sequence[Point]
    label_y: float = 0.0


@dataclass(frozen=True)
class Tick:
    at: float
    text: str


@dataclass(frozen=True)
class Chart:
    """A frame from (0, 0) to (width, height), with ticks on both axes and lines."""

    title: str
    width: float
    height: float
    across: Sequence[Tick]
    up: Sequence[Tick]
    lines: Sequence[Line]


def styles_of(methods: Sequence[str], baseline: str, method: str) -> dict[str, Style]:
    """The baseline has the colour 0, the method that is looked at 1, the others what is left, and dashes after that.

    >>> [style.colour for style in styles_of(["ours", "other", "plain"], "plain", "ours").values()]
    [0, 1, 2]
    """
    others = [name for name in methods if name not in (baseline, method)]
    free = COLOURS - 2
    rest = {name: Style(2 + index % free, (2 + index) % SHAPES, index >= free) for index, name in enumerate(others)}
    return {baseline: Style(0, 0, False), method: Style(1, 1, False)} | rest


def severity_chart(
    grid: Grid, corruptions: Sequence[str], styles: Mapping[str, Style], *, title: str, size: tuple[float, float]
) -> Chart:
    """The mean over corruptions against the severity, for each method; clean images have severity 0."""
    width, height = size
    curves = {method: severity_curve(grid, method, corruptions) for method in grid.methods}
    up = ticks(*span(value for curve in curves.values() for value in curve.values()))
    severities = sorted({severity for curve in curves.values() for severity in curve}) or grid.severities
    x = _scale(float(severities[0]), float(severities[-1]), 0.0, width)
    y = _scale(up[0], up[-1], height, 0.0)
    lines = [
        Line(method, styles[method], [Point(x(s), y(v), _tip(grid.measure, method, s, v)) for s, v in curve.items()])
        for method, curve in curves.items()
        if curve
    ]
    across = [Tick(x(severity), str(severity) if severity else CLEAN) for severity in severities]
    return Chart(title, width, height, across, [Tick(y(tick), f"{tick:g}") for tick in up], labelled(lines, height))


def severity_curve(grid: Grid, method: str, corruptions: Sequence[str]) -> dict[int, float]:
    """Severity -> mean over the corruptions, in the unit in which it is shown."""
    cells = {0: [Cell(CLEAN, None)]} | {s: [Cell(name, s) for name in corruptions] for s in grid.severities}
    means = {severity: grid.mean(method, own) for severity, own in cells.items()}
    return {s: grid.measure.scale * value for s, value in means.items() if value is not None and isfinite(value)}


def reliability_chart(method: str, style: Style, bins: Sequence[Bin], *, side: float) -> Chart:
    """Accuracy against confidence; the area of a point is the share of predictions."""
    shares = (0.0, 0.5, 1.0)
    points = [
        Point(
            round(part.confidence * side, 1),
            round((1 - part.accuracy) * side, 1),
            f"confidence {100 * part.confidence:.1f}, accuracy {100 * part.accuracy:.1f}, "
            f"{100 * part.share:.1f} % of predictions",
            size=round(2 + 12 * part.share**0.5, 1),
        )
        for part in bins
    ]
    across = [Tick(share * side, f"{100 * share:.0f}") for share in shares]
    up = [Tick((1 - share) * side, f"{100 * share:.0f}") for share in shares]
    return Chart(method, side, side, across, up, [Line(method, style, points)])


def ticks(low: float, high: float, *, count: int = 5) -> list[float]:
    """Round numbers that enclose the range, about so many.

    >>> ticks(23.0, 91.5)
    [20.0, 40.0, 60.0, 80.0, 100.0]
    """
    spread = high - low or abs(high) or 1.0
    power = 10.0 ** floor(log10(spread / count))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor * count >= spread)
    first, last = floor(low / step), ceil(high / step)
    return [round(step * index, 10) for index in range(first, max(last, first + 1) + 1)]


def labelled(lines: Sequence[Line], height: float) -> list[Line]:
    """Lines with places for their names at the right end, apart from each other and inside the chart if they fit."""
    order = sorted(lines, key=lambda line: line.points[-1].y)
    places: list[float] = []
    for line in order:
        places.append(max(line.points[-1].y, places[-1] + LABEL_GAP if places else 0.0))
    for index in reversed(range(len(places))):
        lowest = height if index == len(places) - 1 else places[index + 1] - LABEL_GAP
        places[index] = min(places[index], lowest)
    put = {line.name: place for line, place in zip(order, places, strict=True)}
    return [Line(line.name, line.style, line.points, round(put[line.name], 1)) for line in lines]


def _tip(measure: Measure, method: str, severity: int, value: float) -> str:
    where = f"severity {severity}" if severity else "clean images"
    return f"{method}, {where}: {value:.{measure.digits}f} {measure.unit}".rstrip()


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """The straight line that takes low to start and high to end; the middle, if they are one."""
    if low == high:
        return lambda value: (start + end) / 2
    return lambda value: round(start + (value - low) / (high - low) * (end - start), 1)
