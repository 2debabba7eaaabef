"""The report as text: Markdown for a README, an issue or a paper's appendix, and tables for the terminal."""

import os
import re
import sys
import webbrowser
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from rich.markup import escape
from rich.table import Table

from shiftmatch.evaluation.scores import Scores
from shiftmatch.report import summary
from shiftmatch.report.grid import CLEAN_CELL, MEAN, Block, Cell, Grid, Row, blocks, grid_of, row_of
from shiftmatch.report.measures import CLEAN, Measure, readable
from shiftmatch.report.summary import BASELINE, METHOD, Finding
from shiftmatch.utils.files import atomic_path


def write_markdown(
    scores: Scores,
    path: str | PathLike[str],
    *,
    title: str = "shiftmatch report",
    baseline: str = BASELINE,
    method: str = METHOD,
) -> None:
    """Write the sentences and tables of the report; the best of a row is bold where it is so beyond noise.

    Args:
        scores: what `shiftmatch.evaluate` returned.
        path: the file to write.
        title: its heading.
        baseline: the method that others are compared with.
        method: the method that the first sentence is about.

    >>> import tempfile
    >>> from shiftmatch.evaluation.scores import Score
    >>> accuracy = {"plain": 0.5, "ShiftMatch": 0.8}
    >>> rows = [Score(name, "cifar10-c", "fog", 5, "accuracy", value, 0, 100, 0.04) for name, value in accuracy.items()]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_markdown(Scores(rows), page := Path(folder) / "report.md")
    ...     page.read_text().splitlines()[0]
    '# shiftmatch report'
    """
    with atomic_path(path) as temporary:
        temporary.write_text(markdown_of(scores, title=title, baseline=baseline, method=method), encoding="utf-8")


def markdown_of(scores: Scores, *, title: str, baseline: str, method: str) -> str:
    """The report as Markdown text."""
    findings = summary.find(scores, baseline, summary.method_in(scores.values("method"), method))
    found = summary.first_comparison(findings)
    parts = [f"# {literal(title)}", literal(f"{summary.headline(found, summary.made_here(scores))}.")]
    parts += [part for finding in findings for part in _section(finding, baseline)]
    facts = table(["", ""], [[literal(text) for text in pair] for pair in summary.protocol(scores)])
    parts += ["<details><summary>How this was measured</summary>", facts, "</details>"]
    return "\n\n".join(parts) + "\n"


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is words and whose other columns are numbers.

    >>> print(table(["corruption", "plain"], [["fog", "65.1"]]))
    | corruption | plain |
    |---|---:|
    | fog | 65.1 |
    """
    ruler = ["---", *["---:"] * (len(heading) - 1)]
    lines = [_line(map(literal, heading)), f"|{'|'.join(ruler)}|", *(_line(row) for row in rows)]
    return "\n".join(lines)


def literal(text: str) -> str:
    r"""Text that Markdown shows as it is.

    >>> literal("a|b *c* <d>")
    'a\\|b \\*c\\* &lt;d>'
    """
    escaped = re.sub(r"([\\`*_\[\]|#])", r"\\\1", text)
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _section(finding: Finding, baseline: str) -> Iterator[str]:
    measure = finding.grid.measure
    yield f"## {literal(finding.name)}"
    if found := finding.comparison:
        yield literal(" ".join([*summary.sentences(found), summary.losses(found)]))
        yield literal(summary.interval_note(found))
        heading = ["method", "mean", f"against {baseline}", "p"]
        yield table(heading, [list(map(literal, line)) for line in summary.method_lines(finding)])
    unit = f", in {measure.unit}" if measure.unit else ""
    for block in blocks(finding.grid, baseline):
        yield f"{literal(measure.title)}{unit}{', ' + block.title if block.severity else ''}:"
        yield table(["corruption", *finding.grid.methods], _rows(block, measure))


def _rows(block: Block, measure: Measure) -> Iterator[list[str]]:
    for row in block.every_row:
        texts = {method: measure.with_interval(found) for method, found in row.values.items()}
        name = f"**{MEAN}**" if row is block.mean else literal(readable(row.name))
        yield [name, *(f"**{text}**" if method == row.leader else text for method, text in texts.items())]


class Loss(NamedTuple):
    """A cell in which a method is less accurate than the baseline, and by how much."""

    method: str
    corruption: str
    severity: int | None
    points: float


def means_table(scores: Scores, metric: str, baseline: str = BASELINE) -> Table:
    """The mean over corruptions of a metric on one data set: a row for each method; clean images, severities, all.

    >>> from shiftmatch.evaluation.scores import Score
    >>> rows = [Score("plain", "cifar10-c", "fog", 5, "accuracy", 0.5, 0)]
    >>> means_table(Scores(rows), "accuracy").row_count
    1
    """
    grid = grid_of(scores, scores.where(metric=metric).values("data")[0], metric)
    groups: dict[str, list[Cell]] = {CLEAN: [CLEAN_CELL] if CLEAN_CELL in grid.cells else []}
    if len(grid.severities) > 1:
        groups |= {f"severity {s}": [c for c in grid.corrupted if c.severity == s] for s in grid.severities}
    groups |= {"mean": grid.corrupted}
    columns = [row_of(grid, baseline, name, cells) for name, cells in groups.items() if cells]
    table = Table(title=_title(grid), caption=_caption(columns))
    table.add_column("method", no_wrap=True)
    for column in columns:
        table.add_column(column.name, justify="right")
    for method in grid.methods:
        table.add_row(escape(method), *(_text(grid, column, method) for column in columns))
    return table


def corruption_table(scores: Scores, metric: str = "accuracy", baseline: str = BASELINE) -> Table:
    """The values of a metric on one data set, by corruption and method, the mean of the severities of each."""
    grid = grid_of(scores, scores.where(metric=metric).values("data")[0], metric)
    block = blocks(grid, baseline)[0]
    table = Table("corruption", title=_title(grid), caption=_caption(block.every_row))
    for method in grid.methods:
        table.add_column(escape(method), justify="right")
    for row in block.every_row:
        if row is block.mean:
            table.add_section()
        table.add_row(escape(readable(row.name)), *(_text(grid, row, method) for method in grid.methods))
    return table


def lost_cells(scores: Scores, baseline: str = BASELINE) -> list[Loss]:
    """Where methods are less accurate than the baseline, beyond noise where that is known; worst first, in points.

    >>> from shiftmatch.evaluation.scores import Score
    >>> rows = [Score(name, "d", "fog", 5, "accuracy", value, 0) for name, value in (("plain", 0.5), ("ours", 0.25))]
    >>> lost_cells(Scores(rows))
    [Loss(method='ours', corruption='fog', severity=5, points=25.0)]
    """
    found = []
    for data in scores.where(metric="accuracy").values("data"):
        grid = grid_of(scores, data, "accuracy")
        compared = [summary.compare(grid, baseline, method) for method in grid.methods if method != baseline]
        for each in (one for one in compared if one):
            lost = {cell: change for cell, change in each.changes.items() if change.is_loss}
            found += [Loss(each.method, *cell, round(-100 * change.gain, 1)) for cell, change in lost.items()]
    return sorted(found, key=lambda loss: -loss.points)


def open_in_browser(page: Path) -> bool:
    """Open a page if there is a display (a text browser would take over the terminal); return whether it was opened."""
    display = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    return display and webbrowser.open(page.resolve().as_uri())


def _title(grid: Grid) -> str:
    sizes = {row.n for found in grid.cells.values() for rows in found.values() for row in rows}
    images = f", {sizes.pop():,} images" if len(sizes) == 1 and None not in sizes else ""
    return escape(f"{grid.data}{images}: {grid.measure.title}{' in %' if grid.measure.percent else ''}")


def _caption(rows: Sequence[Row]) -> str:
    if not any(found and found.half is not None for row in rows for found in row.values.values()):
        return "no interval known"
    return "±: 95 % interval over images; bold: better than all others, beyond noise"


def _text(grid: Grid, row: Row, method: str) -> str:
    text = grid.measure.with_interval(row.values[method])
    return f"[bold]{text}[/]" if method == row.leader else text
