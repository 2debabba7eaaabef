"""`shiftmatch data`: what is in the data folder, and fetching more; `shiftmatch corrupt`: corrupt a set of it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, no_type_check

import typer
from rich.filesize import decimal
from rich.table import Table

from shiftmatch.cli.options import AsJson
from shiftmatch.cli.output import FAILED, show, tell, writing
from shiftmatch.errors import InputError
from shiftmatch.utils.files import atomic_path

if TYPE_CHECKING:
    from shiftmatch.data import Status

app = typer.Typer(help="List the data sets, or fetch one.", invoke_without_command=True)

Root = Annotated[str | None, typer.Option(help="Data folder. Default: $SHIFTMATCH_DATA, else the user's cache.")]

_STYLE = {"holds": "green", "unchecked": "yellow", "incomplete": "yellow", "damaged": "bold red", "absent": "dim"}


@app.callback()
@no_type_check  # Typer hands in a parent of the Context that it wants to be asked for
def data(context: typer.Context, root: Root = None) -> None:
    """List what is in the data folder, or fetch more.

    Example: shiftmatch data get cifar10
    """
    context.default_map = {"list": {"root": root}, "get": {"root": root}}
    if context.invoked_subcommand is None:
        list_data(root)


@app.command("list")
def list_data(root: Root = None, as_json: AsJson = False) -> None:
    """List the data sets: what is in the data folder, where it came from, its size and whether its checksums hold.

    Example: shiftmatch data list
    """
    from shiftmatch.data import CATALOG, data_folder, inspect

    statuses = [inspect(name, root=root) for name in CATALOG]
    if as_json:
        typer.echo(json.dumps([_plain(status) for status in statuses], indent=1))
    else:
        table = Table(title=f"Data in {data_folder(root)}", caption="Fetch one with: shiftmatch data get NAME")
        table.add_column("name", no_wrap=True)
        table.add_column("size", justify="right", no_wrap=True)
        table.add_column("checksum", overflow="fold")
        table.add_column("came from", overflow="fold")
        for status in statuses:
            size = decimal(status.bytes) if status.bytes else ""
            state = f"{status.state}: {status.detail}" if status.detail else status.state
            source = status.source or f"(published at {CATALOG[status.name].page})"
            table.add_row(status.name, size, state, source, style=_STYLE[status.state])
        show(table)
    if any(status.state == "damaged" for status in statuses):
        raise typer.Exit(FAILED)


def _plain(status: "Status") -> dict[str, object]:
    return {key: getattr(status, key) for key in ("name", "state", "detail", "source", "bytes")}


@app.command("get")
def get_data(
    name: Annotated[str, typer.Argument(help="A name from the list that `shiftmatch data list` prints.")],
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Fetch a data set and verify it; what has arrived of a broken download is kept and continued.

    Example: shiftmatch data get mnist
    """
    from shiftmatch.data import get

    status = get(name, root=root)
    words = f"{name}: {decimal(status.bytes)} in {status.folder}, checksum {status.state} ({status.detail})"
    tell(words, {"folder": status.folder, **_plain(status)}, as_json=as_json)


def corrupt(
    suite: Annotated[str, typer.Argument(help="cifar10-c, imagenet-c or mnist-c.")] = "imagenet-c",
    *,
    image: Annotated[
        Path | None, typer.Option("--show", help="Draw the sheet of all corruptions of this image.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write to (with --show: the PNG file).")] = None,
    data: Annotated[str | None, typer.Option(help="The clean set to corrupt, if not the suite's own.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="A corruption to write; may be repeated. Default: all.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many images.")] = None,
    seed: Annotated[int, typer.Option(help="Fixes every image's result.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    root: Annotated[str | None, typer.Option(help="Data folder.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a corrupted test set in its published layout, or draw a sheet with --show IMAGE.

    The same command resumes after an interruption.

    Example: shiftmatch corrupt cifar10-c --limit 1000 --workers 2 --out cifar10-c

    Another: shiftmatch corrupt --show photo.jpg --out sheet.png
    """
    from shiftmatch.data import open_image, sheet, write_corrupted

    if image is None:
        folder = write_corrupted(
            suite, out, data=data, corruptions=only, limit=limit, seed=seed, workers=workers, root=root
        )
        tell(f"{suite} is in {folder}", {"out": folder}, as_json=as_json)
    else:
        if data or only or limit or workers > 1:
            raise InputError(
                "--show draws all corruptions of one image: --data, --only, --limit, --workers go without."
            )
        target = out or Path(f"{image.stem}-{suite}.png")
        with writing(target, image), atomic_path(target) as path:
            sheet(open_image(image), suite, seed=seed).save(path, "PNG")
        tell(f"The sheet is {target}", {"out": target}, as_json=as_json)
