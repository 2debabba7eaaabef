"""`shiftmatch report`: scores in, a page out."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from shiftmatch.cli.output import say, writing


def report(
    scores: Annotated[
        list[Path], typer.Argument(help="CSV files that `shiftmatch evaluate` wrote; several are merged.")
    ],
    *,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    markdown: Annotated[Path | None, typer.Option(help="Also write the sentences and tables as Markdown here.")] = None,
    figures: Annotated[Path | None, typer.Option(help="Also write every figure into this folder.")] = None,
    kind: Annotated[Literal["svg", "png"], typer.Option("--format", help="Of those figures.")] = "svg",
    baseline: Annotated[str, typer.Option(help="The method that others are compared with.")] = "plain",
    method: Annotated[str, typer.Option(help="The method that the headline is about.")] = "ShiftMatch",
    title: Annotated[str | None, typer.Option(help="Above the headline; without it, the names of the files.")] = None,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page if there is a display.")] = True,
) -> None:
    """One page that holds everything: what is gained and where it loses, curves, tables that sort and filter, protocol.

    It opens without a network, on a phone, in dark mode, and prints. A picture named as a scores file,
    NAME.before-after.png beside NAME.csv, is shown in it.

    Example: shiftmatch report results/cifar10c.csv --baseline plain --method ShiftMatch --out cifar10c.html

    For a paper: shiftmatch report results/*.csv --figures figures/ --format svg --markdown tables.md
    """
    from shiftmatch.report.html import write_html
    from shiftmatch.report.markdown import write_markdown
    from shiftmatch.report.sources import open_scores, pictures_beside
    from shiftmatch.report.terminal import open_in_browser

    table, name = open_scores(scores), title or ", ".join(path.stem for path in scores)
    with writing(out):
        write_html(table, out, title=name, pictures=pictures_beside(scores), baseline=baseline, method=method)
    if markdown:
        write_markdown(table, markdown, title=name, baseline=baseline, method=method)
        say(f"The tables are in {markdown}")
    if figures:
        from shiftmatch.report.figure_files import write_figures

        written = write_figures(table, figures, kind=kind, baseline=baseline, method=method)
        say(f"{len(written)} figures are in {figures}")
    opened = open_page and open_in_browser(out)
    say(f"The page is {'open: ' if opened else ''}{out.resolve()}")
