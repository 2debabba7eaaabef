"""The two kinds of corrupted sets on disk: arrays per corruption, and a JPEG per image. Every file appears whole."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shiftmatch.data.job import Job, Piece
from shiftmatch.data.pictures import Pictures
from shiftmatch.errors import InputError
from shiftmatch.utils.files import atomic_path

ARRAY_PIECE = 500
PICTURE_PIECE = 50
JPEG_QUALITY = 85


class CorruptedFiles(Protocol):
    """Pieces are made in any order, by any process; a corruption is finished when none is missing."""

    def missing(self, name: str) -> list[Piece]: ...

    def make(self, piece: Piece) -> None: ...

    def finish(self, name: str) -> None: ...


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
        if not isinstance(pictures, Pictures):
            raise InputError(f"{self.job.suite} consists of image files, {self.job.data} does not.")
        folder = self.folder / piece.name / str(piece.severity)
        sources = pictures.paths[piece.start : piece.stop]
        return [folder / source.parent.name / f"{source.stem}.JPEG" for source in sources]


def _save(path: Path, array: NDArray[np.generic]) -> None:
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.save(file, array, allow_pickle=False)
