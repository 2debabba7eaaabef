"""Commands that end in a page or a table: `shiftmatch demo`, `report` and `reproduce`."""

import json
import sys
from contextlib import nullcontext, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from shiftmatch.cli.options import AsJson
from shiftmatch.cli.output import is_quiet, say, show, tell, writing
from shiftmatch.errors import InputError
from shiftmatch.utils.files import atomic_path


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
    as_json: AsJson = False,
) -> None:
    """One page that holds everything: what is gained and where it loses, curves, tables that sort and filter, protocol.

    It opens without a network, on a phone, in dark mode, and prints. A picture named as a scores file,
    NAME.before-after.png beside NAME.csv, is shown in it.

    Example: shiftmatch report results/cifar10c.csv --baseline plain --method ShiftMatch --out cifar10c.html

    For a paper: shiftmatch report results/*.csv --figures figures/ --format svg --markdown tables.md
    """
    from shiftmatch.report.files import open_scores, pictures_beside
    from shiftmatch.report.html import write_html
    from shiftmatch.report.markdown import open_in_browser, write_markdown

    table, name = open_scores(scores), title or ", ".join(path.stem for path in scores)
    found: dict[str, Any] = {"out": out}
    with writing(out, *scores), writing(markdown, *scores, out) if markdown else nullcontext():
        write_html(table, out, title=name, pictures=pictures_beside(scores), baseline=baseline, method=method)
        if markdown:
            write_markdown(table, markdown, title=name, baseline=baseline, method=method)
            found["markdown"] = markdown
    if figures:
        from shiftmatch.report.files import write_figures

        found["figures"] = write_figures(table, figures, kind=kind, baseline=baseline, method=method)
    opened = open_page and not as_json and open_in_browser(out)
    words = f"The tables are in {markdown}\n" if markdown else ""
    words += f"{len(found['figures'])} figures are in {figures}\n" if figures else ""
    tell(f"{words}The page is {'open: ' if opened else ''}{out.resolve()}", found, as_json=as_json)


def demo(
    *,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("shiftmatch-demo.html"),
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page if there is a display.")] = True,
    as_json: AsJson = False,
    images: Annotated[int, typer.Option(min=100, max=2000, help="Digits to predict; fewer are quicker.")] = 1000,
    draws: Annotated[int, typer.Option(min=1, max=20, help="Draws of each posterior; fewer are quicker.")] = 5,
    seed: Annotated[int, typer.Option(help="Fixes the corruptions.")] = 0,
) -> None:
    """Compare six methods on MNIST-C in under a minute: a table, and a page with pictures.

    Plain HMC, the EmpCov prior, a deep ensemble, test-time batchnorm, ShiftMatch and its structure in the paper, on
    digits and posteriors that ship with the package; nothing is downloaded. With --json the table is printed, and no
    page is written.

    Example: shiftmatch demo --out demo.html
    """
    from shiftmatch.demo.mnist import MnistDemo
    from shiftmatch.report.markdown import open_in_browser

    if as_json:
        findings = MnistDemo(images=images, draws=draws, seed=seed).run()
        typer.echo(json.dumps({"settings": findings.settings, "accuracy": findings.accuracy}, indent=1))
        return
    with writing(out):
        findings = MnistDemo(images=images, draws=draws, seed=seed).run()
        show(findings.table())
        with atomic_path(out) as path:
            path.write_text(findings.page(), encoding="utf-8")
    opened = open_page and open_in_browser(out)
    say(f"The page is {'open: ' if opened else ''}{out.resolve()}")


def reproduce(
    name: Annotated[str, typer.Argument(help="`list`, `all`, or a name from the list, such as fig1.")],
    *,
    size: Annotated[str, typer.Option(help="small: what two cores can do. paper: the published settings.")] = "small",
    out: Annotated[Path, typer.Option(help="The folder for scores and figures.")] = Path("paper/results"),
    root: Annotated[
        str | None, typer.Option(help="Data folder. Default: $SHIFTMATCH_DATA, else the user's cache.")
    ] = None,
) -> None:
    """Run an experiment of the paper, and hold what comes out against what is published.

    Networks are trained when they are missing; the same command resumes after an interruption. Writes NAME.csv
    (scores), NAME.json (how they were made) and figures.

    Example: shiftmatch reproduce fig1 --size small --out results
    """
    if Path("paper/registry.py").is_file() and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        from paper.__main__ import main
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("paper"):
            raise
        raise InputError(
            "The experiments of the paper are not part of the installed package. Run this in a clone of the "
            "repository, in the folder that holds paper/."
        ) from error
    given = [name, "--size", size, "--out", str(out), *(["--root", root] if root else [])]
    with redirect_stdout(StringIO()) if is_quiet() else nullcontext():
        code = main(given)
    if code:
        raise typer.Exit(code)
