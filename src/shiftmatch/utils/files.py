"""Where files are kept, and writing them so that a reader, or a crash, never meets half of one."""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

unsafe_characters = re.compile(r"[^\w.]+")
"""What the name of a file should not have: `unsafe_characters.sub("_", name)`."""


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it is flushed and takes the name, on failure it goes away.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_path(Path(folder) / "hello.txt") as temporary:
    ...         _ = temporary.write_text("hello")
    ...     (Path(folder) / "hello.txt").read_text()
    'hello'
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _flush(temporary)
        temporary.chmod(0o666 & ~_umask())
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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def data_folder(root: str | os.PathLike[str] | None = None) -> Path:
    """`root` if given, else $SHIFTMATCH_DATA, else the user's cache directory.

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
