"""The report: one page that holds all it needs, for any scores. Everything that is filled in is escaped."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.figure_files import Draw, figures_of, figures_of_data, inline_svg
from shiftmatch.report.grid import CLEAN, Change, Grid, group_of
from shiftmatch.report.measures import Measure, readable, show_p
from shiftmatch.report.sentences import headline, interval_note, losses, method_lines, scope, sentences
from shiftmatch.report.sources import PICTURE, made_here, protocol
from shiftmatch.report.summary import BASELINE, METHOD, Finding, PairedComparison, find, first_comparison, method_in
from shiftmatch.report.tables import Block, Row, blocks
from shiftmatch.utils.files import atomic_path

STRONGEST = 45
"""Of the colour behind a cell, in %: as much as text stays readable on, in light and in dark."""


def write_html(
    scores: Scores,
    path: str | PathLike[str],
    *,
    title: str = "shiftmatch report",
    pictures: Sequence[Path] = (),
    baseline: str = BASELINE,
    method: str = METHOD,
) -> None:
    """Write one page that needs nothing else; `pictures` are PNG files that it holds and shows.

    Its headline says what `method` gains over `baseline`, and where it loses.
    """
    page = page_of(scores, title=title, pictures=pictures, baseline=baseline, method=method)
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def page_of(scores: Scores, *, title: str, pictures: Sequence[Path], baseline: str, method: str) -> str:
    """The page as text; the same scores give the same text."""
    method = method_in(scores.values("method"), method)
    findings = find(scores, baseline, method)
    parts = {data: scores.where(data=data) for data in scores.values("data")}
    views = [
        _view(number, finding, figures_of(finding, parts[finding.grid.data], baseline, method), baseline)
        for number, finding in enumerate(findings, start=1)
    ]
    tables = [table for view in views for table in view["tables"]]
    return render(
        "page.html",
        title=title,
        headline=headline(first_comparison(findings), made_here(scores)),
        baseline=baseline,
        method=method,
        views=views,
        severities=dict.fromkeys((table.severity, table.title) for table in tables),
        groups=dict.fromkeys(row.group for table in tables for row in table.rows if row.group != CLEAN),
        figures={data: _drawn(figures_of_data(own, baseline, method), data) for data, own in parts.items()},
        pictures={picture.stem.removesuffix(PICTURE): png_address(picture.read_bytes()) for picture in pictures},
        protocol=protocol(scores),
    )


def render(template: str, **values: Any) -> str:
    """A template of this package, filled in."""
    return _templates().get_template(template).render(**values)


def png_address(content: bytes) -> str:
    """A PNG file as an address that holds all of it."""
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


@dataclass(frozen=True)
class Shown:
    """A value as a table shows it; `level` is how much of the colour is behind it, in %."""

    value: float | None  # None if it cannot be reckoned with
    half: float | None  # of its interval
    text: str
    interval: str
    note: str
    level: int
    best: bool
    worst: bool
    behind: bool


@dataclass(frozen=True)
class HeatRow:
    name: str
    group: str
    cells: list[Shown]


@dataclass(frozen=True)
class HeatMap:
    """A block whose best values have the strongest colour."""

    severity: str
    title: str
    rows: list[HeatRow]
    mean: HeatRow | None

    @property
    def intervals(self) -> bool:
        """Whether any is known."""
        return any(cell.interval for row in self.rows for cell in row.cells)


def heat_maps(grid: Grid, baseline: str) -> list[HeatMap]:
    """The tables of a grid, all on one scale of colour."""
    known = [
        row.value for found in grid.cells.values() for rows in found.values() for row in rows if isfinite(row.value)
    ]
    span = (min(known), max(known)) if known else (0.0, 1.0)
    return [_heat_map(block, grid.measure, span) for block in blocks(grid, baseline)]


def _heat_map(block: Block, measure: Measure, span: tuple[float, float]) -> HeatMap:
    marked = block.worst(measure.better)
    rows = [_heat_row(row, measure, span, marked) for row in block.rows]
    return HeatMap(
        block.severity, block.title, rows, _heat_row(block.mean, measure, span, set()) if block.mean else None
    )


def _heat_row(row: Row, measure: Measure, span: tuple[float, float], marked: set[tuple[str, str]]) -> HeatRow:
    cells = []
    for method, found in row.values.items():
        value = found.value if found is not None and isfinite(found.value) else None
        half = found.half if found is not None else None
        cells.append(
            Shown(
                value=value,
                half=half,
                text=measure.number(found.value if found else None),
                interval=f"±{measure.number(half)}" if half is not None else "",
                note=measure.describe(found),
                level=_level(value, measure.better, *span),
                best=method == row.leader,
                worst=(row.name, method) in marked,
                behind=method in row.behind,
            )
        )
    return HeatRow(row.name, group_of(row.name), cells)


def _level(value: float | None, better: int, low: float, high: float) -> int:
    if value is None or low == high:
        return 0
    share = min(max((value - low) / (high - low), 0.0), 1.0)
    return round(STRONGEST * (1 - share if better < 0 else share))


def _view(number: int, finding: Finding, plots: Mapping[str, Draw], baseline: str) -> dict[str, Any]:
    """What the page shows of one metric on one data set; what there are no scores for is empty."""
    grid, found = finding.grid, finding.comparison
    wanted = {kind: draw for kind, draw in plots.items() if kind != "heat map"}
    return {
        "number": number,
        "data": grid.data,
        "title": finding.name,
        "measure": grid.measure,
        "methods": grid.methods,
        "tables": heat_maps(grid, baseline),
        "figures": _drawn(wanted, finding.name),
        "tiles": _tiles(found) if found else [],
        "sentences": sentences(found) if found else [],
        "loses": found is not None
        and any(change.gain < 0 and not change.is_noise for change in found.changes.values()),
        "losses": losses(found) if found else "",
        "lines": list(method_lines(finding)),
        "note": interval_note(found) if found else "",
    }


def _drawn(plots: Mapping[str, Draw], name: str) -> dict[str, Markup]:
    return {kind: Markup(inline_svg(draw(), f"{name}, {kind}")) for kind, draw in plots.items()}


def _tiles(found: PairedComparison) -> list[dict[str, Any]]:
    """Changes at a glance."""
    shown = {scope(found): found.overall}
    if found.severest:
        shown[f"severity {found.severest[0].severity}"] = found.mean(found.severest)
    if found.clean:
        shown["clean images"] = found.clean
    return [_tile(title, found.grid.measure, change) for title, change in shown.items()]


def _tile(title: str, measure: Measure, change: Change) -> dict[str, Any]:
    return {
        "title": title,
        "before": measure.number(change.before.value),
        "after": measure.number(change.after.value),
        "gain": measure.show_gain(measure.better * change.gain, change.half),
        "p": show_p(change.p_value),
        "noise": change.is_noise,
        "loses": change.gain < 0 and not change.is_noise,
        "note": f"{measure.describe(change.before)} → {measure.describe(change.after)}",
    }


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("shiftmatch.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["readable"] = readable
    return templates
