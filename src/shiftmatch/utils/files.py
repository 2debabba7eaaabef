"""Where files are kept, writing them whole or not at all, and what to say of how they were made."""

import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

from shiftmatch.errors import FileFormatError, ShiftMatchError

unsafe_characters = re.compile(r"[^\w.]+")
"""What the name of a file should not have: `unsafe_characters.sub("_", name)`."""


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it is flushed and takes the name, on failure it goes away.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_path(Path(folder) / "hello.txt") as temporary:
    ...         _ = temporary.write_text("hello")
    ...     (Path(folder) / "hello.txt").read_text()
    'hello'
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    temporary.touch(exist_ok=False)
    rights = temporary.stat().st_mode & 0o777  # those that the umask leaves; safetensors makes another file
    try:
        yield temporary
        _flush(temporary)
        temporary.chmod(rights)
        temporary.replace(target)
        _flush(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def parsing(path: str | os.PathLike[str], what: str, advice: str) -> Iterator[None]:
    """Where the content of a file is taken apart: what is missing or of another kind there becomes our own error.

    >>> with parsing("net.stats", "its statistics", "Fit and save them again."):
    ...     {}["sites"]
    Traceback (most recent call last):
    ...
    shiftmatch.errors.FileFormatError: net.stats lacks a part of its statistics (KeyError('sites')). Fit and save ...
    """
    try:
        yield
    except ShiftMatchError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise FileFormatError(f"{path} lacks a part of {what} ({error!r:.200}). {advice}") from error


def data_folder(root: str | os.PathLike[str] | None = None) -> Path:
    """`root` if given, else $SHIFTMATCH_DATA, else the user's cache directory.

    Args:
        root: a folder, where one is given.

    >>> data_folder("somewhere").name
    'somewhere'
    """
    if chosen := root or os.environ.get("SHIFTMATCH_DATA"):
        return Path(chosen).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("shiftmatch", appauthor=False)


def frost_folder(root: str | os.PathLike[str] | None = None) -> Path:
    """Where the published photographs of frost are looked for.

    >>> frost_folder("somewhere").parts
    ('somewhere', 'frost')
    """
    return data_folder(root) / "frost"


PACKAGES = ("shiftmatch", "torch", "numpy", "pillow")


def versions() -> dict[str, str]:
    """The versions of what determines results.

    >>> list(versions())
    ['shiftmatch', 'torch', 'numpy', 'pillow']
    """
    return {package: version(package) for package in PACKAGES}


def save_result(path: str | PathLike[str], *, command: str, settings: Mapping[str, Any], result: Any) -> None:
    """Write a result as JSON with the command, the settings and the versions behind it."""
    record = {
        "command": command,
        "settings": dict(settings),
        "versions": versions(),
        "result": result,
    }
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(record, indent=1) + "\n")
