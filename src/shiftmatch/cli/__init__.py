"""The command line: parses, calls the public functions, prints; no logic of its own."""

import os
import sys
import warnings
from concurrent.futures.process import BrokenProcessPool
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from shiftmatch.cli.data import app as data_app
from shiftmatch.cli.data import corrupt
from shiftmatch.cli.evaluate import evaluate
from shiftmatch.cli.fit import export, fit, import_hmc, sample, sites
from shiftmatch.cli.output import FAILED, INTERRUPTED, WarnInWords, complain, explain
from shiftmatch.cli.predict import diagnose, predict
from shiftmatch.cli.report import demo, report, reproduce
from shiftmatch.errors import ShiftMatchError
from shiftmatch.utils.parallel import keep_freed_memory

COMMANDS = (demo, sites, fit, predict, diagnose, sample, import_hmc, corrupt, evaluate, export, report, reproduce)
RESUMES = {
    "corrupt": "What is finished is kept: the same command resumes there.",
    "data": "What has arrived is kept: the same command resumes there.",
    "evaluate": "Finished cells are kept: the same command resumes there.",
    "reproduce": "What is finished is kept: the same command resumes there.",
    "sample": "With --folder the run is kept, and the same command resumes there; without it, nothing is.",
}
"""What Ctrl-C leaves of a command."""


class Commands(TyperGroup):
    """Errors are one message without a traceback, and an exit code."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """--quiet may stand anywhere, also behind the command."""
        quiet = [word for word in args if word in ("--quiet", "-q")]
        return super().parse_args(ctx, [*quiet[:1], *(word for word in args if word not in ("--quiet", "-q"))])

    def invoke(self, ctx: Any) -> Any:
        with warnings.catch_warnings():
            warnings.showwarning = WarnInWords()
            try:
                return super().invoke(ctx)
            except (ShiftMatchError, BrokenProcessPool, MemoryError) as error:
                complain(str(error) or "There is too little memory; take smaller batches: batch_size=100.")
            except BrokenPipeError:  # the reader of the output has closed it
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            except OSError as error:
                complain(explain(error))
            except KeyboardInterrupt:
                complain(
                    RESUMES.get(ctx.invoked_subcommand, "Nothing was written: run the same command again."),
                    kind="stopped",
                )
                raise typer.Exit(INTERRUPTED) from None
            finally:
                os.environ.pop("SHIFTMATCH_QUIET", None)
        raise typer.Exit(FAILED)


def _version(wanted: bool) -> bool:
    if wanted:
        from shiftmatch.utils.files import versions

        typer.echo("shiftmatch {shiftmatch} (torch {torch}, numpy {numpy})".format(**versions()))
        raise typer.Exit
    return wanted


app = typer.Typer(
    name="shiftmatch", cls=Commands, no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_show_locals=False
)
app.add_typer(data_app, name="data")
for command in COMMANDS:
    app.command()(command)


@app.callback()
def shiftmatch(
    *,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors and warnings.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Make trained networks robust to corrupted inputs, without gradients or retraining.

    Try it at once: shiftmatch demo

    Your network, three commands:

    shiftmatch fit nets.py:resnet train/ --weights net.pt --size 224 --out net.stats

    shiftmatch diagnose nets.py:resnet photos/ --weights net.pt --statistics net.stats

    shiftmatch predict nets.py:resnet photos/ --weights net.pt --statistics net.stats --out labels.csv

    For scripts: --json prints results as JSON, --quiet says nothing but errors and warnings.

    Exit codes: 0 done, 1 an error, 2 wrong usage, 3 done but some images were refused, 130 interrupted (Ctrl-C).
    """
    if quiet:
        os.environ["SHIFTMATCH_QUIET"] = "1"


def main() -> None:
    """Run the command line."""
    keep_freed_memory()
    app()
