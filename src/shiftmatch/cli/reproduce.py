"""`shiftmatch reproduce`: the figures and tables of the paper."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from shiftmatch.errors import InputError


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
    if code := main(given):
        raise typer.Exit(code)
