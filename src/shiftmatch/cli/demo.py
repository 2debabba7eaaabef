"""`shiftmatch demo`: the main job in small, on what ships with the package."""

import json
from pathlib import Path
from typing import Annotated

import typer

from shiftmatch.cli.options import AsJson
from shiftmatch.cli.output import say, show, writing
from shiftmatch.utils.files import atomic_path


def demo(
    *,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("shiftmatch-demo.html"),
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page if there is a display.")] = True,
    as_json: AsJson = False,
    images: Annotated[int, typer.Option(min=100, max=2000, help="Digits to predict; fewer are quicker.")] = 1000,
    draws: Annotated[int, typer.Option(min=1, max=20, help="Draws of each posterior; fewer are quicker.")] = 5,
    seed: Annotated[int, typer.Option(help="Fixes the corruptions.")] = 0,
) -> None:
    """Six ways to meet MNIST-C, compared in under a minute: a table, and a page with pictures.

    Plain HMC, the EmpCov prior, a deep ensemble, test-time batchnorm, ShiftMatch and its structure in the paper, on
    digits and posteriors that ship with the package; nothing is downloaded. With --json the table is printed, and no
    page is written.

    Example: shiftmatch demo --out demo.html
    """
    from shiftmatch.demo.mnist import MnistDemo
    from shiftmatch.report.terminal import open_in_browser

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
