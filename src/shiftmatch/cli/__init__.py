"""The command line: parses, calls the public functions, prints; no logic of its own."""

import typer

app = typer.Typer(name="shiftmatch", no_args_is_help=True, add_completion=False, rich_markup_mode="rich")


@app.callback()
def shiftmatch() -> None:
    """Make trained networks robust to corrupted inputs, without gradients or retraining."""


def main() -> None:
    app()
