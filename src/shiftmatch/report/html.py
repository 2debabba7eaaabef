"""The report: one page that holds all it needs, for any scores."""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.bars import shift_bars
from shiftmatch.report.charts import Chart, Style, reliability_chart, styles_of
from shiftmatch.report.comparison import headline
from shiftmatch.report.findings import BASELINE, METHOD, find, first_comparison
from shiftmatch.report.grid import CLEAN
from shiftmatch.report.measures import measure
from shiftmatch.report.pages import png_address, render
from shiftmatch.report.protocol import protocol
from shiftmatch.report.series import calibration_gap, layer_shifts, reliability
from shiftmatch.report.sources import PICTURE
from shiftmatch.report.views import view
from shiftmatch.utils.files import atomic_path

SQUARE = 150.0
"""Side of a reliability diagram."""


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
    findings = find(scores, baseline, method)
    styles = styles_of(scores.values("method"), baseline, method)
    views = [view(number, finding, styles, baseline) for number, finding in enumerate(findings, start=1)]
    tables = [table for own in views for table in own.tables]
    parts = {data: scores.where(data=data) for data in scores.values("data")}
    return render(
        "page.html",
        title=title,
        headline=headline(first_comparison(findings)),
        baseline=baseline,
        method=method,
        views=views,
        severities=dict.fromkeys((table.severity, table.title) for table in tables),
        groups=dict.fromkeys(row.group for table in tables for row in table.rows if row.group != CLEAN),
        reliability={data: found for data, own in parts.items() if (found := _reliability(own, styles))},
        shifts={data: shift_bars(moved) for data, own in parts.items() if (moved := layer_shifts(own))},
        pictures={picture.stem.removesuffix(PICTURE): png_address(picture.read_bytes()) for picture in pictures},
        protocol=protocol(scores),
    )


def _reliability(scores: Scores, styles: Mapping[str, Style]) -> list[tuple[Chart, str]]:
    """Diagrams, each with its calibration error as text."""
    return [
        (reliability_chart(method, styles[method], bins, side=SQUARE), measure("ece").show(calibration_gap(bins)))
        for method, bins in reliability(scores).items()
        if bins
    ]
