"""Image files in class folders, decoded when they are indexed."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import overload

import numpy as np
import torch
from jaxtyping import Int64
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from shiftmatch.errors import DataNotFoundError, FileFormatError

SIDE = 224
SHORT_SIDE = 256
SUFFIXES = (".jpeg", ".jpg", ".png")


@dataclass(frozen=True, eq=False)
class Pictures:
    """The files below a folder of class folders, in a fixed order that mixes the classes.

    A class-sorted order would give batches of a few classes, from which no fair statistics can be measured, and
    so would its first n. The order is that of a hash of each file's `class/name`: the same on every machine, and
    the same for the clean images and their corrupted copies.
    """

    paths: tuple[Path, ...]
    labels: Int64[Tensor, "n"]

    @classmethod
    def below(cls, folder: Path) -> "Pictures":
        """Every image in the class folders of `folder`; the label is the rank of the class folder's name."""
        classes = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
        found = [(_mixing(path), path, label) for label, kind in enumerate(classes) for path in _images(kind)]
        if not found:
            raise DataNotFoundError(f"{folder} has no class folders with {', '.join(SUFFIXES)} files in them.")
        _, paths, labels = zip(*sorted(found), strict=True)
        return cls(paths, torch.tensor(labels))

    def __len__(self) -> int:
        return len(self.paths)

    @overload
    def __getitem__(self, index: slice) -> "Pictures": ...

    @overload
    def __getitem__(self, index: Tensor) -> Tensor: ...

    def __getitem__(self, index: slice | Tensor) -> "Pictures | Tensor":
        if isinstance(index, slice):
            return replace(self, paths=self.paths[index], labels=self.labels[index])
        return torch.stack([open_picture(self.paths[position]) for position in index.tolist()])


def open_picture(path: Path) -> Tensor:
    """An image file as uint8 CHW: shorter side to 256, centre 224 × 224; one that has this size stays as it is."""
    try:
        with Image.open(path) as file:
            image = centre(file.convert("RGB"))
    except (UnidentifiedImageError, OSError) as error:
        raise FileFormatError(f"{path} is not a readable image ({error}). Delete it and fetch it again.") from error
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def centre(image: Image.Image, side: int = SIDE, short_side: int = SHORT_SIDE) -> Image.Image:
    """The published preprocessing of ImageNet-C: resize the shorter side (bilinear), then crop the centre.

    >>> centre(Image.new("RGB", (640, 480))).size
    (224, 224)
    """
    if image.size == (side, side):
        return image
    scale = short_side / min(image.size)
    width, height = (max(side, round(scale * length)) for length in image.size)
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = (width - side) // 2, (height - side) // 2
    return resized.crop((left, top, left + side, top + side))


def _images(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES]


def _mixing(path: Path) -> bytes:
    return hashlib.blake2b(f"{path.parent.name}/{path.name}".encode(), digest_size=8).digest()
