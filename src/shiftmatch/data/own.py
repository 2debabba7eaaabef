"""A user's own images: a folder of files or an array, seen in a fixed random order, prepared as the network wants."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import overload

import numpy as np
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from shiftmatch.data.labelled import Gallery
from shiftmatch.data.pictures import SUFFIXES, centre
from shiftmatch.data.readers import read_array
from shiftmatch.errors import DataNotFoundError, FileFormatError, InputError
from shiftmatch.shapes import Images

CHANNELS = (1, 3)
IMAGE_ARRAYS, LABEL_ARRAYS = ("images", "x", "X"), ("labels", "y", "Y")
"""What the arrays of an .npz file may be called."""


@dataclass(frozen=True)
class Preprocessing:
    """From pixels to inputs: bytes are divided by 255, then (x − mean) / std with one number or one per channel.

    Image files are first cut to `size` × `size` pixels around their centre, after their shorter side has been resized
    to it, and made `grey` if so wished.

    >>> Preprocessing(mean=(0.5,), std=(0.25,))(torch.full((1, 1, 1, 1), 255, dtype=torch.uint8)).item()
    2.0
    """

    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    size: int | None = None
    grey: bool = False

    @staticmethod
    def of(mean: str | None, std: str | None, *, size: int | None = None, grey: bool = False) -> "Preprocessing":
        """From text such as "0.5" or "0.5,0.4,0.4".

        >>> Preprocessing.of("0.5,0.4,0.4", None).mean
        (0.5, 0.4, 0.4)
        """
        return Preprocessing(_numbers(mean or "0"), _numbers(std or "1"), size, grey)

    def __call__(self, pixels: Tensor) -> Images:
        x = pixels if pixels.is_floating_point() else pixels / 255
        mean, std = (torch.tensor(values, dtype=x.dtype)[:, None, None] for values in (self.mean, self.std))
        return (x - mean) / std

    def unless_remembered(self, note: str) -> "Preprocessing":
        """What a note remembers, unless this one says anything of its own.

        >>> note = Preprocessing(size=28).note()
        >>> Preprocessing().unless_remembered(note).size, Preprocessing(size=32).unless_remembered(note).size
        (28, 32)
        """
        return (Preprocessing.from_note(note) or self) if self == Preprocessing() else self

    def note(self) -> str:
        """As text, to be kept with statistics."""
        return json.dumps({"preprocessing": asdict(self)})

    @staticmethod
    def from_note(note: str) -> "Preprocessing | None":
        """What `note` wrote, or nothing if the note is in somebody's own words.

        >>> Preprocessing.from_note(Preprocessing(size=28).note()).size
        28
        """
        try:
            found = json.loads(note)["preprocessing"]
            return Preprocessing(tuple(found["mean"]), tuple(found["std"]), found["size"], found["grey"])
        except (ValueError, KeyError, TypeError):
            return None


@dataclass(frozen=True, eq=False)
class OwnImages:
    """Images with a name each (the file, or the position), and labels if they have any."""

    names: Sequence[str]
    images: Gallery
    labels: Int64[Tensor, "n"] | None
    classes: tuple[str, ...]
    preprocessing: Preprocessing

    def __len__(self) -> int:
        return len(self.names)

    def inputs(self, index: Int64[Tensor, "b"]) -> Images:
        """Those images as the network takes them."""
        return self.preprocessing(self.images[index])

    def training_data(self) -> tuple[Images, Int64[Tensor, "n"]]:
        """All inputs with their labels."""
        if self.labels is None:
            raise InputError(
                "These images have no labels. Put them into one folder per class, or pass an .npz file with arrays "
                "called images and labels."
            )
        return self.inputs(torch.arange(len(self))), self.labels

    def batches(self, size: int) -> "Batches":
        """All images in batches of `size` or a little more: statistics want no small last batch."""
        # Folders and arrays are often sorted by class, and a batch of one class has other statistics than its data.
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(0))
        return Batches(self, order.tensor_split(max(1, len(self) // size)))


@dataclass(frozen=True, eq=False)
class Batches:
    """Batches that can be gone through again and again: inputs, and the positions of the images."""

    source: OwnImages
    parts: Sequence[Tensor]

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[tuple[Images, Int64[Tensor, "b"]]]:
        return ((self.source.inputs(index), index) for index in self.parts)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        raise InputError(f"Expected one number, or one per channel with commas between; got {text!r}.") from None


def open_images(path: Path, preprocessing: Preprocessing) -> OwnImages:
    """A folder of images, flat or with one folder per class; or an .npy or .npz file, bytes or numbers from 0 to 1."""
    if path.is_dir():
        return _open_folder(path, preprocessing)
    if not path.is_file():
        raise DataNotFoundError(f"There is no folder or file {path}.")
    if path.suffix == ".npy":
        return _from_arrays(path, read_array(path), None, preprocessing)
    if path.suffix == ".npz":
        return _open_npz(path, preprocessing)
    raise InputError(f"{path} is neither a folder of images nor an .npy or .npz file.")


def _open_folder(folder: Path, preprocessing: Preprocessing) -> OwnImages:
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    if not files:
        raise DataNotFoundError(f"There are no {', '.join(SUFFIXES)} files in {folder} or in folders below it.")
    names = [path.relative_to(folder).as_posix() for path in files]
    kinds = [name.split("/")[0] for name in names if "/" in name]
    classes = tuple(sorted(set(kinds)))
    labels = torch.tensor([classes.index(kind) for kind in kinds]) if len(kinds) == len(names) else None
    return OwnImages(names, _Files(tuple(files), preprocessing), labels, classes if kinds else (), preprocessing)


@dataclass(frozen=True, eq=False)
class _Files:
    """Image files, decoded when they are indexed."""

    paths: tuple[Path, ...]
    preprocessing: Preprocessing

    def __len__(self) -> int:
        return len(self.paths)

    @overload
    def __getitem__(self, index: slice) -> "_Files": ...
    @overload
    def __getitem__(self, index: Tensor) -> Tensor: ...
    def __getitem__(self, index: slice | Tensor) -> "_Files | Tensor":
        if isinstance(index, slice):
            return replace(self, paths=self.paths[index])
        decoded = [self._decode(self.paths[position]) for position in index.tolist()]
        if len(shapes := {image.shape for image in decoded}) > 1:
            raise InputError(f"The images have different sizes, such as {sorted(shapes)[:2]}; pass a size to cut to.")
        return torch.stack(decoded)

    def _decode(self, path: Path) -> Tensor:
        size, mode = self.preprocessing.size, "L" if self.preprocessing.grey else "RGB"
        try:
            with Image.open(path) as file:
                image = file.convert(mode)
        except (UnidentifiedImageError, OSError) as error:
            raise FileFormatError(f"{path} is not a readable image ({error}). Take it out of the folder.") from error
        pixels = torch.from_numpy(np.array(centre(image, size, size) if size else image))
        return pixels[None] if self.preprocessing.grey else pixels.permute(2, 0, 1)


def _open_npz(path: Path, preprocessing: Preprocessing) -> OwnImages:
    try:
        with np.load(path, allow_pickle=False) as file:
            images, labels = (_first(file, names) for names in (IMAGE_ARRAYS, LABEL_ARRAYS))
    except (ValueError, OSError) as error:
        raise FileFormatError(f"{path} is not a complete .npz file of numbers ({error}).") from error
    if images is None:
        raise FileFormatError(f"{path} has no array called {', '.join(IMAGE_ARRAYS)}.")
    return _from_arrays(path, images, labels, preprocessing)


def _first(file: "np.lib.npyio.NpzFile", names: Sequence[str]) -> NDArray[np.generic] | None:
    return next((file[name] for name in names if name in file), None)


def _from_arrays(
    path: Path, images: NDArray[np.generic], labels: NDArray[np.generic] | None, preprocessing: Preprocessing
) -> OwnImages:
    pixels = torch.from_numpy(images)
    if pixels.dtype != torch.uint8 and not pixels.is_floating_point():
        raise FileFormatError(f"{path} holds {pixels.dtype}; expected bytes (uint8), or numbers from 0 to 1.")
    pixels = pixels[:, None] if pixels.ndim == 3 else pixels
    if pixels.ndim != 4 or not (pixels.shape[1] in CHANNELS or pixels.shape[-1] in CHANNELS):
        raise FileFormatError(
            f"{path} has the shape {tuple(images.shape)}; expected N × H × W, N × H × W × C or N × C × H × W "
            f"with 1 or 3 channels."
        )
    pixels = pixels if pixels.shape[1] in CHANNELS else pixels.permute(0, 3, 1, 2)
    targets = None if labels is None else torch.from_numpy(labels.astype(np.int64))
    if targets is not None and targets.shape != (len(pixels),):
        raise FileFormatError(f"{path} has {len(pixels)} images, but labels of shape {tuple(targets.shape)}.")
    names = [str(position) for position in range(len(pixels))]
    return OwnImages(names, pixels if pixels.dtype == torch.uint8 else pixels.float(), targets, (), preprocessing)
