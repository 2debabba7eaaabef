"""One finding, as what a page shows of it: tiles, sentences, curves, gains, tables."""

from collections.abc import Mapping
from dataclasses import dataclass

from shiftmatch.report.bars import Bar, bars
from shiftmatch.report.blocks import blocks
from shiftmatch.report.charts import Chart, Style, severity_chart
from shiftmatch.report.comparison import Change, Comparison, losses, scope, sentences
from shiftmatch.report.findings import Finding
from shiftmatch.report.heat import HeatMap, heat_map
from shiftmatch.report.measures import Measure, span

WIDE, SMALL = (640.0, 300.0), (150.0, 90.0)
"""Width and height of the chart of the mean, and of one corruption."""


@dataclass(frozen=True)
class Tile:
    """A change at a glance."""

    title: str
    before: str
    after: str
    gain: str
    loses: bool


@dataclass(frozen=True)
class View:
    """What a page shows of one metric on one data set."""

    number: int
    data: str
    title: str
    measure: Measure
    styles: Mapping[str, Style]
    tables: list[HeatMap]
    curve: Chart | None
    curves: Mapping[str, Chart]  # corruption -> the same for it alone
    tiles: list[Tile]
    sentences: list[str]
    loses: bool
    losses: str
    gains: list[Bar]


def view(number: int, finding: Finding, styles: Mapping[str, Style], baseline: str) -> View:
    """All that is shown of a finding; what there are no scores for is empty."""
    grid, found = finding.grid, finding.comparison
    several = len(grid.severities) > 1
    names = grid.corruptions
    title = f"{grid.measure.title} against severity, mean over the corruptions"
    values = span(value for row in grid.cells.values() for value in row.values())
    return View(
        number=number,
        data=grid.data,
        title=finding.name,
        measure=grid.measure,
        styles={method: styles[method] for method in grid.methods},
        tables=[heat_map(block, grid.measure, baseline, values) for block in blocks(grid)],
        curve=severity_chart(grid, names, styles, title=title, size=WIDE) if several else None,
        curves={name: severity_chart(grid, [name], styles, title=name, size=SMALL) for name in names if several},
        tiles=_tiles(found) if found else [],
        sentences=sentences(found) if found else [],
        loses=found is not None and found.loses,
        losses=losses(found) if found else "",
        gains=_gains(found) if found else [],
    )


def _tiles(found: Comparison) -> list[Tile]:
    tiles = [_tile(scope(found), found, found.overall)]
    if found.severest:
        tiles.append(_tile(f"severity {found.severest[0].severity}", found, found.mean(found.severest)))
    if found.clean:
        tiles.append(_tile("clean images", found, found.clean))
    return tiles


def _tile(title: str, found: Comparison, change: Change) -> Tile:
    measure = found.grid.measure
    gain = measure.show_gain(change.after - change.before)
    return Tile(title, measure.number(change.before), measure.number(change.after), gain, change.gain < 0)


def _gains(found: Comparison) -> list[Bar]:
    gains = found.gains()
    texts = {name: found.grid.measure.number(gain, sign=True) for name, gain in gains.items()}
    return bars(gains, texts, low=min([0.0, *gains.values()]), high=max([0.0, *gains.values()]))
