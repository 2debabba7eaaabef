"""`shiftmatch reproduce`: the figures and tables of the paper."""

from pathlib import Path
from typing import Annotated

import typer


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

    Networks are trained when they are missing; a run that was killed goes on where it was. Writes NAME.csv (scores),
    NAME.json (how they were made) and figures.

    Example: shiftmatch reproduce fig1 --size small --out results
    """
    from paper.experiments.registry import EXPERIMENTS
    from paper.experiments.reproduce import overview
    from paper.experiments.reproduce import reproduce as run
    from rich.console import Console

    from shiftmatch.errors import ShiftMatchError

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
            typer.echo(f"Left out: {method}. {reason}")
        typer.echo(f"Scores and {len(found.files) - 2} figures are in {out.resolve()}")
    for each, reason in failed.items():
        typer.secho(f"{each} could not be run: {reason}", fg="red", err=True)
    if failed:
        raise typer.Exit(1)
