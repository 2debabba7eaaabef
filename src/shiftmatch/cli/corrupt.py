"""`shiftmatch corrupt`: write a corrupted data set, or draw what the corruptions do to an image."""

from pathlib import Path
from typing import Annotated

import typer

from shiftmatch.cli.output import say, writing
from shiftmatch.utils.files import atomic_path


def corrupt(
    suite: Annotated[str, typer.Argument(help="cifar10-c, imagenet-c or mnist-c.")] = "imagenet-c",
    *,
    show: Annotated[Path | None, typer.Option(help="Draw the sheet of all corruptions of this image.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write to (with --show: the PNG file).")] = None,
    data: Annotated[str | None, typer.Option(help="The clean set to corrupt, if not the suite's own.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="A corruption to write; may be repeated. Default: all.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many images.")] = None,
    seed: Annotated[int, typer.Option(help="Fixes every image's result.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    root: Annotated[str | None, typer.Option(help="Data folder.")] = None,
) -> None:
    """Write a corrupted test set in its published layout, or draw a sheet with --show IMAGE.

    The same command resumes after an interruption.

    Example: shiftmatch corrupt cifar10-c --limit 1000 --workers 2 --out cifar10-c

    Another: shiftmatch corrupt --show photo.jpg --out sheet.png
    """
    from shiftmatch.data import open_image, sheet, write_corrupted

    if show is None:
        folder = write_corrupted(
            suite, out, data=data, corruptions=only, limit=limit, seed=seed, workers=workers, root=root
        )
        say(f"{suite} is in {folder}")
    else:
        target = out or Path(f"{show.stem}-{suite}.png")
        with writing(target), atomic_path(target) as path:
            sheet(open_image(show), suite, seed=seed).save(path, "PNG")
        say(f"The sheet is {target}")
