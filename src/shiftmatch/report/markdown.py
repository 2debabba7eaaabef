"""The report as Markdown: sentences and tables, for a README, an issue or a paper's appendix."""

import re
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike

from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.blocks import MEAN, Block, Values, best, blocks
from shiftmatch.report.comparison import losses, sentences
from shiftmatch.report.findings import BASELINE, METHOD, Finding, find, first_comparison
from shiftmatch.report.grid import CLEAN
from shiftmatch.report.measures import Measure, readable
from shiftmatch.report.protocol import protocol
from shiftmatch.utils.files import atomic_path


def write_markdown(
    scores: Scores,
    path: str | PathLike[str],
    *,
    title: str = "shiftmatch report",
    baseline: str = BASELINE,
    method: str = METHOD,
) -> None:
    """Write the sentences and tables of the report; the best of each row is bold."""
    with atomic_path(path) as temporary:
        temporary.write_text(markdown_of(scores, title=title, baseline=baseline, method=method), encoding="utf-8")


def markdown_of(scores: Scores, *, title: str, baseline: str, method: str) -> str:
    """The report as Markdown text."""
    findings = find(scores, baseline, method)
    first_comparison(findings)
    parts = [f"# {literal(title)}", *(part for finding in findings for part in _section(finding))]
    parts += [
        "## How this was measured",
        table(["", ""], [[literal(text) for text in pair] for pair in protocol(scores)]),
    ]
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


def _section(finding: Finding) -> Iterator[str]:
    yield f"## {literal(finding.name)}"
    if found := finding.comparison:
        yield literal(" ".join(sentences(found)))
        yield literal(losses(found))
    measure = finding.grid.measure
    unit = f", in {measure.unit}" if measure.unit else ""
    for block in blocks(finding.grid):
        yield f"{literal(measure.title)}{unit}{', ' + block.title if block.severity else ''}:"
        yield table(["corruption", *finding.grid.methods], _rows(block, measure))


def _rows(block: Block, measure: Measure) -> Iterator[list[str]]:
    for name, values in block.rows.items():
        yield [literal(readable(name)), *_numbers(values, measure)]
    if len(block.rows.keys() - {CLEAN}) > 1:
        yield [f"**{MEAN}**", *_numbers(block.mean, measure)]


def _numbers(values: Values, measure: Measure) -> Iterator[str]:
    leaders = best(values, measure.better) if len(values) > 1 else set()
    for method, value in values.items():
        yield f"**{measure.number(value)}**" if method in leaders else measure.number(value)
