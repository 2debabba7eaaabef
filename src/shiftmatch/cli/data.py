"""`shiftmatch data`: what is in the data folder, and fetching more."""

from typing import Annotated, no_type_check

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from shiftmatch.data.catalog import CATALOG
from shiftmatch.data.folder import data_folder
from shiftmatch.data.inventory import Status, get, inspect

app = typer.Typer(help="List the data sets, or fetch one.", invoke_without_command=True)

Root = Annotated[str | None, typer.Option(help="Data folder. Default: $SHIFTMATCH_DATA, else the user's cache.")]

_STYLE = {"holds": "green", "unchecked": "yellow", "incomplete": "yellow", "damaged": "bold red", "absent": "dim"}


@app.callback()
@no_type_check  # Typer hands in a parent of the Context that it wants to be asked for
def list_data(context: typer.Context, root: Root = None) -> None:
    """List what is in the data folder, where it came from, its size and whether its checksums hold."""
    if context.invoked_subcommand is None:
        statuses = [inspect(name, root=root) for name in CATALOG]
        Console().print(_table(statuses, str(data_folder(root))))
        if any(status.state == "damaged" for status in statuses):
            raise typer.Exit(1)


@app.command("get")
def get_data(name: Annotated[str, typer.Argument(help=f"One of: {', '.join(CATALOG)}.")], root: Root = None) -> None:
    """Fetch a data set and verify it; what has arrived of a broken download is kept and continued."""
    status = get(name, root=root)
    typer.echo(f"{name}: {decimal(status.bytes)} in {status.folder}, checksum {status.state} ({status.detail})")


def _table(statuses: list[Status], folder: str) -> Table:
    table = Table(title=f"Data in {folder}", caption="Fetch one with: shiftmatch data get NAME")
    table.add_column("name", no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("checksum", overflow="fold")
    table.add_column("came from", overflow="fold")
    for status in statuses:
        size = decimal(status.bytes) if status.bytes else ""
        state = f"{status.state}: {status.detail}" if status.detail else status.state
        source = status.source or f"(published at {CATALOG[status.name].page})"
        table.add_row(status.name, size, state, source, style=_STYLE[status.state])
    return table
