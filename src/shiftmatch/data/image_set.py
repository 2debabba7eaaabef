"""A user's own images: a folder of files or an array, seen in a fixed random order, prepared as the network wants."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path

import torch
from jaxtyping import Int64
from torch import Tensor

from shiftmatch.data.images import SUFFIXES, ImageFolder, ImageSource, image_files, stacked
from shiftmatch.data.readers import read_array, read_npz, to_images, to_labels
from shiftmatch.errors import DataNotFoundError, FileFormatError, InputError
from shiftmatch.models.preprocessing import Preprocessing
from shiftmatch.shapes import Images


@dataclass(eq=False)
class Problems:
    """What is met while images are read: those that are refused, with the reason, and what was changed in others."""

    refused: dict[str, str] = field(default_factory=dict)
    changed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images with a name each (the file, or the position), labels if they have any, and notes on how they were read.

    Args:
        names: of each image: its file, or its position.
        images: the pixels, read when they are asked for.
        labels: the class of each image, if it is known.
        classes: the names of the classes.
        preprocessing: how pixels become inputs.
        notes: what was changed in reading them.

    >>> digits = ImageSet(["0", "1"], torch.zeros(2, 1, 8, 8, dtype=torch.uint8), None, (), Preprocessing())
    >>> [tuple(inputs.shape) for inputs, index in digits.batches(2)]
    [(2, 1, 8, 8)]
    """

    names: Sequence[str]
    images: ImageSource
    labels: Int64[Tensor, "n"] | None
    classes: tuple[str, ...]
    preprocessing: Preprocessing
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    def inputs(self, index: Int64[Tensor, "b"]) -> Images:
        """Those images as the network takes them."""
        return self.preprocessing(self.images[index])

    def readable(self, index: Int64[Tensor, "n"], problems: Problems) -> tuple[Images, Int64[Tensor, "b"]] | None:
        """Those of the images that can be read, as the network takes them, and which they are."""
        if isinstance(self.images, ImageFolder):
            found = self._decoded(self.images, index, problems)
        else:
            found = dict(zip(index.tolist(), self.images[index], strict=True))
            for position in [position for position, image in found.items() if not image.isfinite().all()]:
                problems.refused[self.names[position]] = "It holds NaN or infinity."
                del found[position]
        return (self.preprocessing(stacked(list(found.values()))), torch.tensor(list(found))) if found else None

    def _decoded(self, files: ImageFolder, index: Tensor, problems: Problems) -> dict[int, Tensor]:
        found: dict[int, Tensor] = {}
        for position in index.tolist():
            notes: list[str] = []
            try:
                found[position] = files.decode(position, notes)
            except FileFormatError as error:
                reason = str(error).removeprefix(f"{files.paths[position]} ")
                problems.refused[self.names[position]] = reason[0].upper() + reason[1:]
            if notes:
                problems.changed[self.names[position]] = "; ".join(notes)
        return found

    def some(self, count: int = 16) -> Images:
        """A few of the images that can be read, as the network takes them."""
        batches = self.batches(count)
        for inputs, _ in batches:
            return inputs[:count]
        name, reason = next(iter(batches.problems.refused.items()))
        raise FileFormatError(f"None of the {len(self)} images can be read. {name}: {reason}")

    def training_data(self, problems: Problems) -> tuple[Images, Int64[Tensor, "b"]]:
        """All inputs that can be read, with their labels."""
        if self.labels is None:
            raise InputError(
                "These images have no labels. Put them into one folder per class, or pass an .npz file with arrays "
                "called images and labels."
            )
        found = self.readable(torch.arange(len(self)), problems)
        if found is None:
            raise FileFormatError(f"None of the {len(self)} images can be read.")
        return found[0], self.labels[found[1]]

    def batches(self, size: int) -> "Batches":
        """All images in batches of `size` or a little more: statistics want no small last batch."""
        # Folders and arrays are often sorted by class, and a batch of one class has other statistics than its data.
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(0))
        return Batches(self, order.tensor_split(max(1, len(self) // size)))

    def in_colour(self) -> "ImageSet":
        """Grey images with three equal channels, for a network that takes colour."""
        if not isinstance(self.images, Tensor):
            return self
        note = "grey images were given three equal channels"
        return replace(self, images=self.images.expand(-1, 3, -1, -1), notes=(*self.notes, note))


@dataclass(frozen=True, eq=False)
class Batches:
    """Batches that can be gone through again and again: inputs, and the positions of the images.

    Images that cannot be read are left out, and told of in `problems`.
    """

    source: ImageSet
    parts: Sequence[Tensor]
    problems: Problems = field(default_factory=Problems)

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[tuple[Images, Int64[Tensor, "b"]]]:
        for index in self.parts:
            if (found := self.source.readable(index, self.problems)) is not None:
                yield found


def open_images(path: str | PathLike[str], preprocessing: Preprocessing) -> ImageSet:
    """Images of one's own, from a file, a folder or an array.

    Args:
        path: an image; a folder of images, flat or with one folder per class; or an .npy or .npz file of bytes, or of
            numbers from 0 to 1.
        preprocessing: how pixels become inputs; its size and colours say how images are read.

    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("cat", "dog"):
    ...         (Path(folder) / name).mkdir()
    ...         Image.new("RGB", (40, 30)).save(Path(folder) / name / "one.png")
    ...     found = open_images(Path(folder), Preprocessing(size=24))
    ...     found.classes, found.labels.tolist(), tuple(found.some().shape)
    (('cat', 'dog'), [0, 1], (2, 3, 24, 24))
    """
    path = Path(path)
    if path.is_dir():
        return _open_folder(path, preprocessing)
    if not path.is_file():
        raise DataNotFoundError(f"There is no folder or file {path}. Check the path.")
    if path.suffix in (".npy", ".npz"):
        return _open_arrays(path, preprocessing)
    if path.suffix.lower() in SUFFIXES:
        return ImageSet([path.name], _files([path], preprocessing), None, (), preprocessing)
    raise InputError(f"{path} is neither an image, a folder of images nor an .npy or .npz file.")


def _open_folder(folder: Path, preprocessing: Preprocessing) -> ImageSet:
    everything = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
    if not (files := image_files(everything)):
        raise DataNotFoundError(f"There are no {', '.join(SUFFIXES)} files in {folder} or in folders below it.")
    others = Counter(path.suffix or path.name for path in set(everything) - set(files))
    skipped = ", ".join(f"{count} {suffix}" for suffix, count in sorted(others.items()))
    notes = (f"files that are no images by their names were left out: {skipped}",) if others else ()
    names = [path.relative_to(folder).as_posix() for path in files]
    kinds = [name.split("/")[0] for name in names if "/" in name]
    classes = tuple(sorted(set(kinds))) if len(kinds) == len(names) else ()
    rank = {kind: number for number, kind in enumerate(classes)}
    labels = torch.tensor([rank[kind] for kind in kinds]) if classes else None
    return ImageSet(names, _files(files, preprocessing), labels, classes, preprocessing, notes)


def _open_arrays(path: Path, preprocessing: Preprocessing) -> ImageSet:
    images, labels = (read_array(path), None) if path.suffix == ".npy" else read_npz(path)
    notes: list[str] = []
    pixels = to_images(path, images, preprocessing, notes)
    targets, classes = to_labels(path, labels, len(pixels)) if labels is not None else (None, ())
    names = [str(position) for position in range(len(pixels))]
    return ImageSet(names, pixels, targets, classes, preprocessing, tuple(notes))


def _files(paths: Sequence[Path], preprocessing: Preprocessing) -> ImageFolder:
    return ImageFolder(tuple(paths), preprocessing.size, preprocessing.resize, preprocessing.grey)
