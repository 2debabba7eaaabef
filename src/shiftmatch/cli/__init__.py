"""The command line: parses, calls the public functions, prints; no logic of its own."""

import typer

from shiftmatch.cli.corrupt import corrupt
from shiftmatch.cli.data import app as data_app
from shiftmatch.cli.demo import demo
from shiftmatch.cli.evaluate import evaluate
from shiftmatch.cli.fit import fit
from shiftmatch.cli.import_hmc import import_hmc
from shiftmatch.cli.predict import predict
from shiftmatch.cli.report import report
from shiftmatch.cli.reproduce import reproduce
from shiftmatch.cli.sample import sample
from shiftmatch.cli.sites import sites
from shiftmatch.errors import ShiftMatchError

app = typer.Typer(name="shiftmatch", no_args_is_help=True, add_completion=False, rich_markup_mode="rich")
app.add_typer(data_app, name="data")
for command in (demo, sites, fit, predict, sample, import_hmc, corrupt, evaluate, report, reproduce):
    app.command()(command)


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
