"""Checksums, written as they are published: "md5:…" or "sha256:…"."""

import hashlib
from pathlib import Path

from shiftmatch.errors import FileFormatError


def checksum(path: Path, algorithm: str = "sha256") -> str:
    """The checksum of a file, with the name of its algorithm.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "empty").write_bytes(b"")
    ...     checksum(Path(folder) / "empty", "md5")
    'md5:d41d8cd98f00b204e9800998ecf8427e'
    """
    with path.open("rb") as file:
        return f"{algorithm}:{hashlib.file_digest(file, algorithm).hexdigest()}"


def verify(path: Path, expected: str) -> None:
    """Raise unless the file has the checksum `expected`."""
    found = checksum(path, expected.partition(":")[0])
    if found != expected:
        raise FileFormatError(
            f"{path} is damaged or not the published file: expected {expected}, found {found} "
            f"({path.stat().st_size:,} bytes). Delete it and fetch it again."
        )
