"""The report: one page that holds all it needs, for any scores. Everything that is filled in is escaped."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from shiftmatch.evaluation.scores import Scores
from shiftmatch.report import summary
from shiftmatch.report.figures import Draw, inline_svg
from shiftmatch.report.files import PICTURE, figures_of, figures_of_data
from shiftmatch.report.grid import Block, Change, Grid, blocks, group_of
from shiftmatch.report.measures import CLEAN, Estimate, readable, show_p
from shiftmatch.report.summary import BASELINE, METHOD, Finding, PairedComparison
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
    """Write one page that needs nothing else.

    Its headline says what `method` gains over `baseline`, and where it loses.

    Args:
        scores: what `shiftmatch.evaluate` returned.
        path: the page to write.
        title: what stands above it.
        pictures: PNG files that it holds and shows.
        baseline: the method that others are compared with.
        method: the method that the headline is about.

    >>> import tempfile
    >>> from shiftmatch.evaluation.scores import Score
    >>> accuracy = {"plain": 0.5, "ShiftMatch": 0.8}
    >>> rows = [Score(name, "cifar10-c", "fog", 5, "accuracy", value, 0, 100, 0.04) for name, value in accuracy.items()]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_html(Scores(rows), page := Path(folder) / "report.html")
    ...     "<h1" in page.read_text()
    True
    """
    page = page_of(scores, title=title, pictures=pictures, baseline=baseline, method=method)
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def page_of(scores: Scores, *, title: str, pictures: Sequence[Path], baseline: str, method: str) -> str:
    """The page as text; the same scores give the same text."""
    method = summary.method_in(scores.values("method"), method)
    findings = summary.find(scores, baseline, method)
    parts = {data: scores.where(data=data) for data in scores.values("data")}
    views = [
        _view(number, finding, figures_of(finding, parts[finding.grid.data], baseline, method), baseline)
        for number, finding in enumerate(findings, start=1)
    ]
    tables = [block for view in views for block in view["table"].blocks]
    return render(
        "page.html",
        title=title,
        headline=summary.headline(summary.first_comparison(findings), summary.made_here(scores)),
        baseline=baseline,
        method=method,
        views=views,
        severities=dict.fromkeys((table.severity, table.title) for table in tables),
        groups=dict.fromkeys(group_of(row.name) for table in tables for row in table.rows if row.name != CLEAN),
        figures={data: _drawn(figures_of_data(own, baseline, method), data) for data, own in parts.items()},
        pictures={picture.stem.removesuffix(PICTURE): png_address(picture.read_bytes()) for picture in pictures},
        protocol=summary.protocol(scores),
    )


def render(template: str, **values: Any) -> str:
    """A template of this package, filled in."""
    return _templates().get_template(template).render(**values)


def png_address(content: bytes) -> str:
    """A PNG file as an address that holds all of it."""
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


@dataclass(frozen=True, eq=False)
class HeatTable:
    """The tables of a grid, all on one scale of colour."""

    grid: Grid
    blocks: Sequence[Block]

    @classmethod
    def of(cls, grid: Grid, baseline: str) -> "HeatTable":
        return cls(grid, blocks(grid, baseline))

    @property
    def intervals(self) -> bool:
        """Whether any is known."""
        cells = (found for row in self.blocks[0].rows for found in row.values.values())
        return any(found.half is not None for found in cells if found)

    @cached_property
    def span(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        rows = (row for found in self.grid.cells.values() for own in found.values() for row in own)
        known = [row.value for row in rows if isfinite(row.value)] or [0.0]
        return min(known), max(known)

    def level(self, found: Estimate | None) -> int:
        """How much of the colour is behind a value, in %; most behind the best."""
        low, high = self.span
        if found is None or not isfinite(found.value) or low == high:
            return 0
        share = (found.value - low) / (high - low)
        return round(STRONGEST * (1 - share if self.grid.measure.better < 0 else share))


def _view(number: int, finding: Finding, plots: Mapping[str, Draw], baseline: str) -> dict[str, Any]:
    """What the page shows of one metric on one data set; what there are no scores for is empty."""
    found = finding.comparison
    return {
        "number": number,
        "title": finding.name,
        "grid": finding.grid,
        "measure": finding.grid.measure,
        "table": HeatTable.of(finding.grid, baseline),
        "figures": _drawn({kind: draw for kind, draw in plots.items() if kind != "heat map"}, finding.name),
        "changes": _changes(found) if found else {},
        "sentences": " ".join(summary.sentences(found)) if found else "",
        "loses": found and any(change.is_loss for change in found.changes.values()),
        "losses": summary.losses(found) if found else "",
        "lines": summary.method_lines(finding),
        "note": summary.interval_note(found) if found else "",
    }


def _drawn(plots: Mapping[str, Draw], name: str) -> dict[str, Markup]:
    return {kind: Markup(inline_svg(draw(), f"{name}, {kind}")) for kind, draw in plots.items()}


def _changes(found: PairedComparison) -> dict[str, Change]:
    """What is seen at a glance, the overall change first."""
    shown = {summary.scope(found): found.overall}
    if found.severest:
        shown[f"severity {found.severest[0].severity}"] = found.mean(found.severest)
    return shown | ({"clean images": found.clean} if found.clean else {})


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("shiftmatch.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"readable": readable, "group_of": group_of, "show_p": show_p}
    return templates
