"""What commands say and where they write: messages, exit codes, and files that are tried before the work."""

import errno
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from shiftmatch.errors import InputError, SmallBatchWarning

if TYPE_CHECKING:
    from shiftmatch.data.image_set import ImageSet, Problems

FAILED, PARTIAL, INTERRUPTED = 1, 3, 130
"""Exit codes: something went wrong; some images were refused; Ctrl-C. Wrong usage is 2."""
MAX_SHOWN = 20
"""Refused images that are listed."""
OPTIONS = ("prior_images", "batch_size", "size", "device", "workers")
"""Arguments in the advice of the library that are options here."""


def say(text: str) -> None:
    """What was done; nothing with --quiet."""
    if not is_quiet():
        typer.echo(text)


def tell(text: str, found: Any, *, as_json: bool) -> None:
    """What was done: as JSON, which --quiet does not silence, or in words."""
    if as_json:
        typer.echo(json.dumps(found, default=str, indent=1 if isinstance(found, list) else None))
    else:
        say(text)


def show(table: Any) -> None:
    """A table, or a sentence with rich's markup; nothing with --quiet."""
    if not is_quiet():
        Console().print(table)


def is_quiet() -> bool:
    """Whether only errors and warnings are wanted."""
    return bool(os.environ.get("SHIFTMATCH_QUIET"))


def complain(text: object, *, kind: str = "error") -> None:
    """An error, a warning or a note, on standard error, in the words of the command line."""
    if kind == "note" and is_quiet():
        return
    style = "red" if kind == "error" else "yellow"
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(f"{kind}: {in_options(str(text))}", style=style, markup=False)


def in_options(text: str) -> str:
    """Advice to a programmer as advice to a user of the command line.

    >>> in_options("Pass larger batches, or prior_images=32, to match.")
    'Pass larger batches, or --prior-images 32, to match.'
    >>> in_options("Fit again with shiftmatch.fit(model, data), or pass check_weights=False if that is meant.")
    'Fit again with shiftmatch fit.'
    """
    text = re.sub(r", or pass check_weights=False[^.]*", "", text)
    text = re.sub(r"shiftmatch\.(fit|sites)\(\w+, \w+\)", r"shiftmatch \1", text)
    text = re.sub(r"shiftmatch\.\w+\([^()]*?(\w+=[^(),]*)\)", r"\1", text)  # the call around an argument
    return re.sub(
        rf"\b({'|'.join(OPTIONS)})=(\"?)([\w.-]*\w)\2", lambda found: f"--{found[1].replace('_', '-')} {found[3]}", text
    )


class WarnInWords:
    """For warnings.showwarning: the message without the line of code that gave it; about small batches only once."""

    def __init__(self) -> None:
        self.told: set[object] = set()

    def __call__(self, message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        key = category if category is SmallBatchWarning else str(message)
        if key not in self.told:
            self.told.add(key)
            complain(message, kind="warning" if issubclass(category, UserWarning) else category.__name__)


def explain(error: OSError) -> str:
    """A failure of the file system, with what to do."""
    advice = {
        errno.ENOSPC: "The disk is full: free some space and run the same command again.",
        errno.EDQUOT: "The quota is used up: free some space and run the same command again.",
        errno.EACCES: "You may not write or read there: choose another place.",
        errno.EPERM: "You may not write or read there: choose another place.",
        errno.EROFS: "Nothing can be written there: choose another place.",
        errno.ENOENT: "Check the path.",
        errno.ENOTDIR: "Check the path: a file stands where a folder should be.",
    }
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}. {advice.get(error.errno or 0, '')}".strip()


def join_processes() -> tuple[int, int]:
    """The rank of this process among those that torchrun has started, and their number; only the first one talks."""
    if "WORLD_SIZE" not in os.environ:
        return 0, 1
    from shiftmatch.utils.processes import start_processes

    rank, count = start_processes()
    if rank:
        os.environ["SHIFTMATCH_QUIET"] = "1"
    return rank, count


@contextmanager
def writing(out: Path, *inputs: Path | None, beside: Iterable[str] = ()) -> Iterator[Path]:
    """Find out before the work whether `out` can be written, and keep other processes from writing it meanwhile.

    One of the `inputs` is never written over, by `out` or by the files with other endings that come `beside` it. Of the
    processes that torchrun has started the first one writes; what the others write is thrown away.
    """
    if join_processes()[0]:
        with TemporaryDirectory() as folder:
            yield Path(folder) / out.name
        return
    if out.is_dir():
        raise InputError(f"{out} is a folder; name a file to write, such as {out / 'result'}.")
    for file in (out, *map(out.with_suffix, beside)):
        if file.exists() and any(path.exists() and file.samefile(path) for path in inputs if path):
            raise InputError(
                f"{file} is read by this command and would be written over. Choose another place to write to."
            )
    lock = out.with_name(f".{out.name}.lock")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        handle = _lock(lock)
    except OSError as error:
        raise InputError(f"{out} cannot be written ({error.strerror}). Choose another place.") from error
    if handle is None:
        raise InputError(
            f"Another process is writing {out} at this moment. Wait until it has ended, or choose another place."
        )
    try:
        yield out
    finally:
        lock.unlink(missing_ok=True)
        os.close(handle)


def _lock(path: Path) -> int | None:
    """A lock that goes with its process, however that ends; nothing if another process has it."""
    try:
        import fcntl
    except ImportError:  # no such locks on Windows
        return os.open(path, os.O_CREAT | os.O_RDWR)
    while True:
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        if path.exists() and os.fstat(handle).st_ino == path.stat().st_ino:
            return handle
        os.close(handle)  # it was released, and its file removed, between the two calls


def finish(images: "ImageSet", problems: "Problems", text: str, found: Mapping[str, Any], *, as_json: bool) -> None:
    """Tell which images were refused, and what was done; the exit code is 3 if any were."""
    tell_problems(problems, images.notes, images=len(images))
    tell(text, {**found, "refused": problems.refused}, as_json=as_json)
    if problems.refused:
        raise typer.Exit(PARTIAL)


def tell_problems(problems: "Problems", notes: Sequence[str], *, images: int) -> None:
    """A summary of what was changed and refused in reading images."""
    for note in notes:
        complain(f"{note}.", kind="note")
    for change in sorted(set(problems.changed.values())):
        names = [name for name, text in problems.changed.items() if text == change]
        complain(f"{change} in {len(names)} of {images} images, such as {names[0]}.", kind="note")
    if not problems.refused:
        return
    from rich.table import Table

    table = Table("image", "why it was refused", title=f"{len(problems.refused)} of {images} images were refused")
    for name, reason in list(problems.refused.items())[:MAX_SHOWN]:
        table.add_row(name, reason)
    if len(problems.refused) > MAX_SHOWN:
        table.add_row("…", f"and {len(problems.refused) - MAX_SHOWN} more")
    Console(stderr=True).print(table, markup=False)
