"""Unpacking archives so that nothing lands outside the folder and half an archive is never seen."""

import gzip
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path

from shiftmatch.errors import FileFormatError
from shiftmatch.utils.files import atomic_path


def unpack(archive: Path, folder: Path) -> None:
    """Put the contents of a .tar, .tar.gz, .zip or single-file .gz into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if archive.suffix == ".zip" or ".tar" in archive.suffixes:
            _unpack_tree(archive, folder)
        else:
            with gzip.open(archive) as packed, atomic_path(folder / archive.stem) as path, path.open("wb") as file:
                shutil.copyfileobj(packed, file)
    except (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise FileFormatError(
            f"{archive} cannot be unpacked ({error}); expected a complete archive without links or paths that leave "
            f"the folder. Delete it and fetch it again."
        ) from error


def _unpack_tree(archive: Path, folder: Path) -> None:
    """Unpack aside, then move into place: what has its name is whole."""
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=folder) as aside:
        if archive.suffix == ".zip":
            _unzip(archive, Path(aside))
        else:
            with tarfile.open(archive) as tar:
                tar.extractall(aside, filter="data")
        _move(Path(aside), folder)


def _move(source: Path, target: Path) -> None:
    """Rename `source` to `target`; a folder that is there already keeps what else it has."""
    if source.is_dir() and target.is_dir():
        for entry in source.iterdir():
            _move(entry, target / entry.name)
    else:
        source.replace(target)


def _unzip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        for name in packed.namelist():
            if not (folder / name).resolve().is_relative_to(folder.resolve()):
                raise zipfile.BadZipFile(f"the entry {name!r} points outside the folder")
        packed.extractall(folder)
