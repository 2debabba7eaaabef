"""`shiftmatch reproduce`: the figures and tables of the paper."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from shiftmatch.cli.output import complain, say
from shiftmatch.errors import InputError, ShiftMatchError


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
    from rich.console import Console

    if (Path("paper") / "experiments").is_dir() and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        from paper.experiments.registry import EXPERIMENTS
        from paper.experiments.reproduce import overview
        from paper.experiments.reproduce import reproduce as run
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("paper"):
            raise
        raise InputError(
            "The experiments of the paper are not part of the installed package. Run this in a clone of the "
            "repository, in the folder that holds paper/."
        ) from error
    console = Console()
    if name == "list":
        console.print(overview())
        return
    failed = {}
    for each in EXPERIMENTS if name == "all" else [name]:
        try:
            found = run(each, size=size, out=out, data=root)
        except ShiftMatchError as error:
            if name != "all":
                raise
            failed[each] = str(error)
            continue
        console.print(found.table())
        for method, reason in found.left_out.items():
            say(f"Left out: {method}. {reason}")
        say(f"Scores and {len(found.files) - 2} figures are in {out.resolve()}")
    for each, reason in failed.items():
        complain(f"{each} could not be run: {reason}")
    if failed:
        raise typer.Exit(1)
