"""The report as Markdown: sentences and tables, for a README, an issue or a paper's appendix."""

import re
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike

from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.measures import Measure, readable
from shiftmatch.report.sentences import headline, interval_note, losses, method_lines, sentences
from shiftmatch.report.sources import made_here, protocol
from shiftmatch.report.summary import BASELINE, METHOD, Finding, find, first_comparison, method_in
from shiftmatch.report.tables import MEAN, Block, blocks
from shiftmatch.utils.files import atomic_path


def write_markdown(
    scores: Scores,
    path: str | PathLike[str],
    *,
    title: str = "shiftmatch report",
    baseline: str = BASELINE,
    method: str = METHOD,
) -> None:
    """Write the sentences and tables of the report; the best of a row is bold where it is so beyond noise."""
    with atomic_path(path) as temporary:
        temporary.write_text(markdown_of(scores, title=title, baseline=baseline, method=method), encoding="utf-8")


def markdown_of(scores: Scores, *, title: str, baseline: str, method: str) -> str:
    """The report as Markdown text."""
    findings = find(scores, baseline, method_in(scores.values("method"), method))
    found = first_comparison(findings)
    parts = [f"# {literal(title)}", literal(f"{headline(found, made_here(scores))}.")]
    parts += [part for finding in findings for part in _section(finding, baseline)]
    facts = table(["", ""], [[literal(text) for text in pair] for pair in protocol(scores)])
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
        yield literal(" ".join([*sentences(found), losses(found)]))
        yield literal(interval_note(found))
        heading = ["method", "mean", f"against {baseline}", "p"]
        yield table(heading, [list(map(literal, line)) for line in method_lines(finding)])
    unit = f", in {measure.unit}" if measure.unit else ""
    for block in blocks(finding.grid, baseline):
        yield f"{literal(measure.title)}{unit}{', ' + block.title if block.severity else ''}:"
        yield table(["corruption", *finding.grid.methods], _rows(block, measure))


def _rows(block: Block, measure: Measure) -> Iterator[list[str]]:
    for row in block.every_row:
        texts = {method: measure.with_interval(found) for method, found in row.values.items()}
        name = f"**{MEAN}**" if row is block.mean else literal(readable(row.name))
        yield [name, *(f"**{text}**" if method == row.leader else text for method, text in texts.items())]
