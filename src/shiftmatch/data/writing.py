"""Writing a corrupted data set in its published layout, piece by piece; resumes after an interruption."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from shiftmatch.corruptions import corrupt, frost_source, names
from shiftmatch.data.catalog import published
from shiftmatch.data.download import PROVENANCE, read_provenance
from shiftmatch.data.images import SHORT_SIDE, SIDE, ImageFolder, Labelled, centre, to_pixels
from shiftmatch.data.inventory import Layout, Root, Severity, layout_of, load
from shiftmatch.errors import InputError
from shiftmatch.shapes import Pixels
from shiftmatch.utils.files import atomic_path, data_folder, frost_folder
from shiftmatch.utils.parallel import mapping, track

ARRAY_PIECE = 500
PICTURE_PIECE = 50
JPEG_QUALITY = 85


@dataclass(frozen=True)
class Piece:
    """Some neighbouring images under one corruption at one severity."""

    name: str
    severity: Severity
    start: int
    stop: int


@dataclass(frozen=True)
class Job:
    """The corruptions of `suite` on the first `limit` test images of `data`, which lies below `root`."""

    suite: str
    data: str
    root: str
    seed: int = 0
    limit: int | None = None

    @property
    def layout(self) -> Layout:
        return layout_of(self.suite)

    @property
    def clean(self) -> Labelled:
        """The clean set, read once in each process."""
        return _load(self)

    def pieces(self, name: str, size: int) -> Iterator[Piece]:
        """The pieces of a corruption, severity by severity; they are made in any order, by any process."""
        for severity in self.layout.severities:
            for start in range(0, len(self.clean), size):
                yield Piece(name, severity, start, min(start + size, len(self.clean)))

    def images(self, piece: Piece) -> Pixels:
        """The corrupted images of a piece."""
        clean = self.clean.images[torch.arange(piece.start, piece.stop)]
        return corrupt(
            clean, piece.name, severity=piece.severity, suite=self.suite, seed=self.seed, frost=frost_folder(self.root)
        )

    def provenance(self) -> dict[str, object]:
        """What a reader of the files should know of their making."""
        settings = {key: value for key, value in asdict(self).items() if key != "root"}
        return {
            "made by": f"shiftmatch {version('shiftmatch')}",
            **settings,
            "frost": frost_source(frost_folder(self.root)),
        }


@lru_cache(maxsize=1)
def _load(job: Job) -> Labelled:
    return load(job.data, root=job.root, limit=job.limit)


@final
@dataclass(frozen=True)
class ArrayFiles:
    """Pieces lie aside as files of their own until all are there and are joined."""

    job: Job
    folder: Path

    def missing(self, name: str) -> list[Piece]:
        pieces = [] if self._images(name).exists() else self.job.pieces(name, ARRAY_PIECE)
        return [piece for piece in pieces if not self._aside(piece).exists()]

    def make(self, piece: Piece) -> None:
        _save(self._aside(piece), self.job.images(piece).permute(0, 2, 3, 1).numpy())

    def finish(self, name: str) -> None:
        layout, pieces = self.job.layout, list(self.job.pieces(name, ARRAY_PIECE))
        aside = self._aside(pieces[0]).parent
        if not self._images(name).exists():
            labels = self.job.clean.labels.repeat(len(layout.severities)).numpy()
            _save(self.folder / layout.labels.format(name=name), labels.astype(layout.label_type))
            _save(aside / "joined.npy", np.concatenate([np.load(self._aside(p), allow_pickle=False) for p in pieces]))
            (aside / "joined.npy").replace(self._images(name))
        shutil.rmtree(aside, ignore_errors=True)

    def _images(self, name: str) -> Path:
        return self.folder / self.job.layout.images.format(name=name)

    def _aside(self, piece: Piece) -> Path:
        return self.folder / f".pieces-{piece.name}" / f"{piece.severity}-{piece.start:06}.npy"


@final
@dataclass(frozen=True)
class PictureFiles:
    """Each image is a file: `<corruption>/<severity>/<class>/<name>.JPEG`."""

    job: Job
    folder: Path

    def missing(self, name: str) -> list[Piece]:
        pieces = self.job.pieces(name, PICTURE_PIECE)
        return [piece for piece in pieces if not all(path.exists() for path in self._paths(piece))]

    def make(self, piece: Piece) -> None:
        for path, image in zip(self._paths(piece), self.job.images(piece), strict=True):
            with atomic_path(path) as temporary:
                picture = Image.fromarray(image.permute(1, 2, 0).numpy())
                picture.save(temporary, "JPEG", quality=JPEG_QUALITY, optimize=True)

    def finish(self, name: str) -> None:
        """Nothing is left to do: the pictures are the result."""

    def _paths(self, piece: Piece) -> list[Path]:
        pictures = self.job.clean.images
        if not isinstance(pictures, ImageFolder):
            raise InputError(f"{self.job.suite} consists of image files, {self.job.data} does not.")
        folder = self.folder / piece.name / str(piece.severity)
        sources = pictures.paths[piece.start : piece.stop]
        return [folder / source.parent.name / f"{source.stem}.JPEG" for source in sources]


def _save(path: Path, array: NDArray[np.generic]) -> None:
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.save(file, array, allow_pickle=False)


def write_corrupted(
    suite: str,
    out: str | os.PathLike[str] | None = None,
    *,
    data: str | None = None,
    corruptions: Sequence[str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    workers: int = 1,
    root: Root = None,
    progress: bool = True,
) -> Path:
    """Write the corrupted test set of `data` in the layout of `suite`; a second call resumes where the first ended.

    Every finished file appears at once and whole; its bytes depend on neither the workers nor the interruptions.

    Args:
        suite: "cifar10-c", "imagenet-c" or "mnist-c".
        out: the folder to write; that of the suite in the data folder unless given.
        data: the clean set; the suite's own unless given.
        corruptions: which ones; all unless given.
        limit: take the first so many images only.
        seed: fixes what is random.
        workers: processes that share the work; the bytes do not depend on them.
        root: the data folder; $SHIFTMATCH_DATA unless given, else the user's cache.
        progress: whether to show a bar.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as root:
    ...     test = Path(root) / "cifar-10-batches-bin" / "test_batch.bin"
    ...     test.parent.mkdir()
    ...     _ = test.write_bytes(bytes(4 * 3073))  # four black images of class 0
    ...     made = write_corrupted("cifar10-c", f"{root}/made", corruptions=["contrast"], root=root, progress=False)
    ...     sorted(path.name for path in made.glob("*.npy"))
    ['contrast.npy', 'labels.npy']
    """
    layout, folder = layout_of(suite), data_folder(root)
    _load.cache_clear()  # its files may be others than before
    job = Job(suite, data or layout.clean, str(folder), seed, limit)
    chosen = check_corruptions(suite, corruptions)
    target = Path(out) if out is not None else folder / _home(job)
    files = ArrayFiles(job, target) if layout.images else PictureFiles(job, target)
    missing = {name: files.missing(name) for name in chosen}  # tells mistakes before anything is written
    _claim(target, job)
    with mapping(workers) as run:
        for number, (name, pieces) in enumerate(missing.items(), 1):
            label = f"{name} ({number} of {len(chosen)})"
            for _ in track(run(files.make, pieces), label, total=len(pieces), show=progress):
                pass
            files.finish(name)
    return target


def check_corruptions(suite: str, corruptions: Sequence[str] | None) -> tuple[str, ...]:
    """The corruptions asked for, or all that the suite has.

    >>> check_corruptions("cifar10-c", ["contrast"])
    ('contrast',)
    """
    known = names(suite)
    if unknown := sorted(set(corruptions or ()) - set(known)):
        raise InputError(f"{suite} has no corruption {unknown[0]!r}; it has {', '.join(known)}.")
    return tuple(corruptions or known)


def _home(job: Job) -> str:
    return published(job.suite).folder if job.data == job.layout.clean else f"{job.data}-c"


def _claim(target: Path, job: Job) -> None:
    """Mark the folder as this job's, so that no folder ever holds a mixture of two."""
    note, wanted = target / PROVENANCE, job.provenance()
    if found := read_provenance(target):
        if found != wanted:
            raise InputError(f"{target} was begun as {found}, not {wanted}. Choose another folder or delete this one.")
        return
    if target.exists() and any(not path.name.startswith(".") for path in target.iterdir()):
        raise InputError(f"{target} holds files that shiftmatch did not write. Choose another folder.")
    with atomic_path(note) as path:
        path.write_text(json.dumps(wanted, indent=1))


CELL = 128
GAP = 4
LABEL_WIDTH = 150
FONT_SIZE = 14
HEADER = 2 * FONT_SIZE


def sheet(image: Image.Image, suite: str = "imagenet-c", *, seed: int = 0, progress: bool = True) -> Image.Image:
    """Rows: the corruptions of the suite; columns: the image as the suite takes it, then each severity.

    Args:
        image: any image; it is cut as the suite wants it.
        suite: "cifar10-c", "imagenet-c" or "mnist-c".
        seed: fixes what is random.
        progress: whether to show a bar.

    >>> sheet(Image.new("RGB", (64, 48)), "cifar10-c", progress=False).width
    946
    """
    layout = layout_of(suite)
    clean = _prepare(image, suite, layout.side)
    zoom = max(1, CELL // layout.side)
    columns = ("clean", *(f"severity {severity}" if severity else "published" for severity in layout.severities))
    step = zoom * layout.side + GAP
    corruptions = names(suite)
    canvas = Image.new("RGB", (LABEL_WIDTH + step * len(columns) + GAP, HEADER + step * len(corruptions)), "white")
    draw, font = ImageDraw.Draw(canvas), ImageFont.load_default(FONT_SIZE)
    for column, title in enumerate(columns):
        draw.text((LABEL_WIDTH + step * column, GAP), title, "black", font)
    for row, name in enumerate(track(corruptions, "corrupting", show=progress)):
        top = HEADER + step * row
        draw.text((GAP, top + step // 2 - FONT_SIZE), name.replace("_", " "), "black", font)
        for column, cell in enumerate(_cells(clean, name, suite, seed)):
            canvas.paste(
                cell.resize((step - GAP, step - GAP), Image.Resampling.NEAREST), (LABEL_WIDTH + step * column, top)
            )
    return canvas


def _prepare(image: Image.Image, suite: str, side: int) -> Image.Image:
    """The image at the suite's size; grey for MNIST-C."""
    grey = suite == "mnist-c"
    return centre(image.convert("L" if grey else "RGB"), side, SHORT_SIDE if side == SIDE else side)


def _cells(clean: Image.Image, name: str, suite: str, seed: int) -> Iterator[Image.Image]:
    yield clean
    batch = to_pixels(clean)[None]
    for severity in layout_of(suite).severities:
        corrupted = corrupt(batch, name, severity=severity, suite=suite, seed=seed, frost=frost_folder())[0]
        pixels = corrupted.permute(1, 2, 0).numpy()
        yield Image.fromarray(pixels.squeeze(-1) if pixels.shape[-1] == 1 else pixels)
