"""The command line: parses, calls the public functions, prints; no logic of its own."""

import typer

from shiftmatch.cli.corrupt import corrupt
from shiftmatch.cli.data import app as data_app
from shiftmatch.cli.import_hmc import import_hmc
from shiftmatch.cli.demo import demo
from shiftmatch.errors import ShiftMatchError

app = typer.Typer(name="shiftmatch", no_args_is_help=True, add_completion=False, rich_markup_mode="rich")
app.add_typer(data_app, name="data")
app.command()(demo)
app.command()(corrupt)
app.command()(import_hmc)


@app.callback()
def shiftmatch() -> None:
    """Make trained networks robust to corrupted inputs, without gradients or retraining."""


def main() -> None:
    """Run; what goes wrong on purpose is said in one message, without a traceback."""
    try:
        app()
    except ShiftMatchError as error:
        typer.secho(f"error: {error}", fg="red", err=True)
        raise SystemExit(1) from error
