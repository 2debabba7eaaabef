"""The data folder: fetch a set into it, say what is there and whether it is sound, load from it."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from shiftmatch.data.catalog import Download, Published, published
from shiftmatch.data.download import PROVENANCE, Record, checksum, download, unpack, verify
from shiftmatch.data.images import Labelled
from shiftmatch.errors import DataNotFoundError, FileFormatError, InputError
from shiftmatch.utils.files import data_folder
from shiftmatch.utils.parallel import track

Root = str | os.PathLike[str] | None
BY_HAND = "put there by hand"
MADE = "written by shiftmatch corrupt"
State = Literal["absent", "incomplete", "damaged", "unchecked", "holds"]


@dataclass(frozen=True)
class Status:
    """What is there of one data set, where it came from, and whether its checksums hold.

    Args:
        name: of the data set.
        folder: where it is, or would be.
        state: "absent", "incomplete", "damaged", "unchecked" or "holds" (its checksums).
        detail: the same in words.
        source: where it came from.
        bytes: its size on disk.

    >>> inspect("mnist", root="no such folder").state
    'absent'
    """

    name: str
    folder: Path
    state: State
    detail: str
    source: str = ""
    bytes: int = 0


def load(name: str, split: str = "test", *, root: Root = None, limit: int | None = None) -> Labelled:
    """A split of a data set in the data folder; large sets are memory-mapped, image files decoded when indexed.

    Args:
        name: of the data set; `CATALOG` has them all.
        split: "test" or "train"; of a corrupted set, the corruption.
        root: the data folder; $SHIFTMATCH_DATA unless given, else the user's cache.
        limit: take the first so many images only.

    >>> import tempfile, numpy as np
    >>> with tempfile.TemporaryDirectory() as root:
    ...     (home := Path(root) / published("cifar10.1-v6").folder).mkdir()
    ...     np.save(home / "cifar10.1_v6_data.npy", np.zeros((4, 32, 32, 3), np.uint8))
    ...     np.save(home / "cifar10.1_v6_labels.npy", np.arange(4))
    ...     load("cifar10.1-v6", root=root, limit=3)
    Labelled(cifar10.1-v6 test: 3 images, from ...)
    """
    entry, folder = published(name), data_folder(root)
    if split not in entry.splits:
        raise InputError(f"{name} has no split {split!r}; it has {', '.join(entry.splits)}.")
    paths = [folder / entry.folder / file for file in entry.splits[split]]
    if missing := [path for path in paths if not path.exists()]:
        raise DataNotFoundError(f"{missing[0]} does not exist. {_how_to_get(name, entry, folder)}")
    images, labels = entry.read(paths)
    return Labelled(images, labels, f"{name} {split}", str(folder / entry.folder)).first(limit)


def get(name: str, *, root: Root = None, progress: bool = True) -> Status:
    """Fetch a data set into the data folder unless it is there and sound; archives put there by hand are used.

    Args:
        name: of the data set; `CATALOG` has them all.
        root: the data folder; $SHIFTMATCH_DATA unless given, else the user's cache.
        progress: whether to show a bar.

    >>> import tempfile, numpy as np
    >>> with tempfile.TemporaryDirectory() as root:
    ...     (home := Path(root) / published("mnist-c").folder).mkdir()
    ...     get("imagenet", root=root)
    Traceback (most recent call last):
    shiftmatch.errors.DataNotFoundError: ... has no free download. Get it from ...
    """
    entry, folder = published(name), data_folder(root)
    status = inspect(name, root=folder, progress=progress)
    if status.source == MADE:
        raise InputError(f"{status.folder} holds a set {MADE}. Move it away or delete it to fetch the published one.")
    if status.state in ("holds", "unchecked"):
        return status
    if not entry.downloads:
        raise DataNotFoundError(f"{entry.title} has no free download. {_how_to_get(name, entry, folder)}")
    record = Record.read(name, folder)
    if status.state == "damaged" or len(record.downloads) == len(entry.downloads):  # something was lost since
        record = Record()
    for item in entry.downloads:
        if item.file not in record.downloads:
            source = _install(item, folder, progress=progress)
            record = Record({**record.downloads, item.file: source})
            record.write(name, folder)
    unpublished = [file for file in entry.files if file not in _published_checksums(entry)]
    sums = {file: checksum(path) for file in unpublished if (path := folder / entry.folder / file).is_file()}
    Record(record.downloads, sums).write(name, folder)
    return inspect(name, root=folder, progress=progress)


def inspect(name: str, *, root: Root = None, progress: bool = True) -> Status:
    """Look at a data set on disk and check every file that has a checksum.

    Args:
        name: of the data set; `CATALOG` has them all.
        root: the data folder; $SHIFTMATCH_DATA unless given, else the user's cache.
        progress: whether to show a bar.

    >>> inspect("cifar10", root="no such folder").state
    'absent'
    """
    entry, folder = published(name), data_folder(root)
    record, home = Record.read(name, folder), folder / entry.folder
    missing = [file for file in entry.files if not (home / file).exists()]
    if len(missing) == len(entry.files):
        return Status(name, home, "absent", "")
    source = MADE if (home / PROVENANCE).exists() else ", ".join(sorted(set(record.downloads.values()))) or BY_HAND
    found = (source, sum(track(_sizes(home / file for file in entry.files), f"measuring {name}", show=progress)))
    if missing:
        detail = f"{len(missing)} of {len(entry.files)} files are missing, such as {missing[0]}"
        return Status(name, home, "incomplete", detail, *found)
    known = {**record.checksums, **_published_checksums(entry)}
    try:
        for file in track(sorted(known), f"checking {name}", show=progress):
            verify(home / file, known[file])
    except FileFormatError as error:
        return Status(name, home, "damaged", str(error), *found)
    if not known:
        detail = "of the archives held at download" if record.downloads else "none is published for these files"
        return Status(name, home, "unchecked", detail, *found)
    return Status(name, home, "holds", "recorded at download" if record.checksums else "published", *found)


def _install(item: Download, folder: Path, *, progress: bool) -> str:
    """Download (unless it lies there already), verify and unpack; return where it came from."""
    home = folder / item.into
    archive = home / item.file
    if archive.exists():
        verify(archive, item.checksum)
        source = BY_HAND
    else:
        source = download(item.urls, archive, checksum=item.checksum, progress=progress).removesuffix(f"/{item.file}")
    if archive.suffix in (".gz", ".tar", ".zip"):
        unpack(archive, home)
        archive.unlink()
    return source


def _published_checksums(entry: Published) -> dict[str, str]:
    whole = {item.file: item.checksum for item in entry.downloads if item.file in entry.files}
    return {**whole, **entry.checksums}


def _sizes(paths: Iterator[Path]) -> Iterator[int]:
    for path in paths:
        if path.is_dir():
            yield from (file.stat().st_size for file in path.rglob("*") if file.is_file())
        elif path.exists():
            yield path.stat().st_size


def _how_to_get(name: str, entry: Published, folder: Path) -> str:
    some = ", ".join(entry.files[:4]) + ", …" * (len(entry.files) > 4)
    by_hand = f"put its files into {folder / entry.folder} ({some})"
    if entry.downloads:
        return f"Fetch it with `shiftmatch data get {name}`, or {by_hand}; it is published at {entry.page}."
    return f"Get it from {entry.page} and {by_hand}."


Severity = int | None
"""1 to 5; None where a suite has one published severity."""


@dataclass(frozen=True)
class Layout:
    """The clean set that a suite corrupts, its severities, the side of its images, and its files.

    `images` and `labels` are the array files of a corruption; without them each image is a JPEG of its own.
    """

    clean: str
    severities: tuple[Severity, ...]
    side: int
    images: str = ""
    labels: str = ""
    label_type: str = "int64"


LAYOUTS: Mapping[str, Layout] = {
    "mnist-c": Layout("mnist", (None,), 28, "{name}/test_images.npy", "{name}/test_labels.npy"),
    "cifar10-c": Layout("cifar10", (1, 2, 3, 4, 5), 32, "{name}.npy", "labels.npy", "uint8"),
    "imagenet-c": Layout("imagenet", (1, 2, 3, 4, 5), 224),
}


def layout_of(suite: str) -> Layout:
    """The layout of a suite.

    >>> layout_of("cifar10-c").clean
    'cifar10'
    """
    if suite not in LAYOUTS:
        raise InputError(f"There is no suite {suite!r}; there are {', '.join(LAYOUTS)}.")
    return LAYOUTS[suite]


def load_corrupted(suite: str, name: str, severity: Severity, *, root: Root = None) -> Labelled:
    """One corruption at one severity, from the suite's files.

    Args:
        suite: "cifar10-c", "imagenet-c" or "mnist-c".
        name: of the corruption.
        severity: from 1 to 5; None for MNIST-C, which has one.
        root: the data folder; $SHIFTMATCH_DATA unless given, else the user's cache.

    >>> import tempfile, numpy as np
    >>> with tempfile.TemporaryDirectory() as root:
    ...     (home := Path(root) / "CIFAR-10-C").mkdir()
    ...     np.save(home / "fog.npy", np.zeros((5 * 4, 32, 32, 3), np.uint8))  # five severities of four images
    ...     np.save(home / "labels.npy", np.arange(20) % 4)
    ...     load_corrupted("cifar10-c", "fog", 5, root=root)
    Labelled(fog 5: 4 images, from ...)
    """
    layout = layout_of(suite)
    severities = layout.severities
    if severity not in severities:
        raise InputError(f"{suite} has no severity {severity}; it has {severities}.")
    if not layout.images:
        return load(suite, f"{name}/{severity}", root=root)
    whole = load(suite, name, root=root)
    each, rest = divmod(len(whole), len(severities))
    if rest:
        raise FileFormatError(
            f"{name} in {whole.source} has {len(whole):,} images, expected the same number for each of "
            f"{len(severities)} severities. Delete it and fetch {suite} again."
        )
    part = slice(severities.index(severity) * each, (severities.index(severity) + 1) * each)
    return Labelled(whole.images[part], whole.labels[part], f"{name} {severity or ''}".strip(), whole.source)


def is_stored(suite: str, name: str, severity: Severity, *, root: Root = None) -> bool:
    """Whether the suite's files of a corruption at a severity are in the data folder."""
    entry = published(suite)
    files = entry.splits[name if layout_of(suite).images else f"{name}/{severity}"]
    return all((data_folder(root) / entry.folder / file).exists() for file in files)
