"""Downloads that survive broken transfers, lost mirrors and wrong bytes; checksums, archives, records."""

import errno
import gzip
import hashlib
import http.client
import json
import lzma
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from shiftmatch.errors import DataNotFoundError, FileFormatError
from shiftmatch.utils.files import atomic_path, parsing
from shiftmatch.utils.parallel import track

CHUNK = 1 << 20
ATTEMPTS = 3
MAX_RATIO, MIN_LIMIT = 100, 1 << 28
"""An archive may grow so many times when it is unpacked, or to so many bytes; published sets grow tenfold at most."""
TIMEOUT_SECONDS = 30.0
RANGE_NOT_SATISFIABLE = 416
PROVENANCE = "shiftmatch.json"
"""The file that marks a folder whose contents shiftmatch made, and says how."""
_BROKEN = (OSError, http.client.HTTPException)
_MALFORMED = (EOFError, ValueError, OverflowError, NotImplementedError, RuntimeError, LookupError, MemoryError)
"""What the standard library raises for archives with strange entries."""
_ODD_NAMES = {errno.EINVAL, errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP}
"""What the system says of entries that cannot be files: one called `.`, or one that is a file and a folder."""


def download(urls: Sequence[str], target: Path, *, checksum: str, progress: bool = True) -> str:
    """Fetch `target` from the first mirror that delivers the right bytes; return that mirror's address.

    What has arrived is kept in `<target>.part`, from which a later call resumes, even at another mirror.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    failures = []
    for url in urls:
        try:
            _complete(url, part, checksum, progress=progress)
        except (*_BROKEN, FileFormatError) as error:
            failures.append(f"  {url}: {error or type(error).__name__}")
        else:
            part.replace(target)
            return url
    raise DataNotFoundError(
        f"{target.name} could not be downloaded:\n" + "\n".join(failures) + f"\n"
        f"Try again later (what has arrived is kept), or fetch it by hand and put it at {target}, then run the same "
        f"command. Expected checksum: {checksum}."
    )


def _complete(url: str, part: Path, checksum: str, *, progress: bool) -> None:
    """Complete `part`, resuming where a transfer broke, until it has the right checksum."""
    for left in reversed(range(ATTEMPTS)):
        resumed = part.exists()
        try:
            _transfer(url, part, progress=progress)
            verify(part, checksum)
        except urllib.error.URLError:
            raise
        except _BROKEN:
            if not left:
                raise
        except FileFormatError:
            part.unlink()
            if not (left and resumed):  # all came from this mirror, and asking again would give the same
                raise
        else:
            return


def _transfer(url: str, part: Path, *, progress: bool) -> None:
    """Append to `part` what it lacks; raise if the connection ends too early."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if have and error.code == RANGE_NOT_SATISFIABLE:  # nothing is missing; the checksum will tell
            return
        raise
    with response, part.open("ab" if response.status == http.client.PARTIAL_CONTENT else "wb") as file:
        length = int(response.headers.get("Content-Length", 0))
        for chunk in track(_chunks(response), f"{part.stem} (MiB)", total=-(-length // CHUNK) or None, show=progress):
            length -= file.write(chunk)
    if length > 0:
        raise ConnectionError(f"the connection ended {length:,} bytes too early")


def _chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while chunk := response.read(CHUNK):
        yield chunk


def read_provenance(folder: Path) -> dict[str, Any] | None:
    """How shiftmatch made the contents of a folder; None where it did not."""
    path = folder / PROVENANCE
    if not path.exists():
        return None
    with parsing(path, "how this folder was made", "Delete the folder and make it again."):
        found = dict(json.loads(path.read_text()))
        if missing := {"made by", "seed", "frost"} - found.keys():
            raise KeyError(*missing)
        return found


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


def unpack(archive: Path, folder: Path) -> None:
    """Put the contents of a .tar, .tar.gz, .zip or single-file .gz into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    most = max(MIN_LIMIT, MAX_RATIO * archive.stat().st_size)
    try:
        if archive.suffix == ".zip" or ".tar" in archive.suffixes:
            _unpack_tree(archive, folder, most)
        else:
            with gzip.open(archive) as packed, atomic_path(folder / archive.stem) as path, path.open("wb") as file:
                while chunk := packed.read(CHUNK):
                    _check_size(file.tell() + len(chunk), most)
                    file.write(chunk)
    except OSError as error:
        if not isinstance(error, gzip.BadGzipFile) and error.errno not in _ODD_NAMES:  # such as a full disk
            raise
        raise _damaged(archive, error) from error
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, *_MALFORMED) as error:
        raise _damaged(archive, error) from error


def _damaged(archive: Path, error: Exception) -> FileFormatError:
    return FileFormatError(
        f"{archive} cannot be unpacked ({error}); expected a complete archive without links or paths that leave the "
        f"folder. Delete it and fetch it again."
    )


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise zipfile.BadZipFile(f"it would take more than {most:,} bytes, as if made to fill the disk")


def _unpack_tree(archive: Path, folder: Path, most: int) -> None:
    """Unpack aside, then move into place: what has its name is whole."""
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=folder) as aside:
        if archive.suffix == ".zip":
            _unzip(archive, Path(aside), most)
        else:
            _untar(archive, Path(aside), most)
        _move(Path(aside), folder)


def _move(source: Path, target: Path) -> None:
    """Rename `source` to `target`; a folder that is there already keeps what else it has."""
    if source.is_dir() and target.is_dir():
        for entry in source.iterdir():
            _move(entry, target / entry.name)
    else:
        source.replace(target)


def _untar(archive: Path, folder: Path, most: int) -> None:
    total = 0

    def checked(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        nonlocal total
        total += max(0, member.size)
        _check_size(total, most)
        return tarfile.data_filter(member, path)

    with tarfile.open(archive) as tar:
        tar.extractall(str(folder), filter=checked)


def _unzip(archive: Path, folder: Path, most: int) -> None:
    with zipfile.ZipFile(archive) as packed:
        _check_size(sum(entry.file_size for entry in packed.infolist()), most)
        for name in packed.namelist():
            if not (folder / name).resolve().is_relative_to(folder.resolve()):
                raise zipfile.BadZipFile(f"the entry {name!r} points outside the folder")
        packed.extractall(folder)


@dataclass(frozen=True)
class Record:
    """What is remembered of a fetched set: which mirror gave each download, and checksums that nobody publishes."""

    downloads: Mapping[str, str] = field(default_factory=dict)
    checksums: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, name: str, root: Path) -> "Record":
        path = cls.path(name, root)
        with parsing(path, "its download record", "Delete it: checksums are then recorded anew."):
            return cls(**json.loads(path.read_text())) if path.exists() else cls()

    def write(self, name: str, root: Path) -> None:
        with atomic_path(self.path(name, root)) as path:
            path.write_text(json.dumps(asdict(self), indent=1))

    @staticmethod
    def path(name: str, root: Path) -> Path:
        return root / ".records" / f"{name}.json"
