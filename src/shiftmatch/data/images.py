"""Images to predict or measure: what every reader returns and every consumer takes; files are decoded when indexed."""

import hashlib
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Protocol, final, overload, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from shiftmatch.errors import DataNotFoundError, FileFormatError, InputError

SIDE, SHORT_SIDE = 224, 256
"""How ImageNet's images are cut."""


@runtime_checkable
class ImageSource(Protocol):
    """Images that can be read one by one: a slice is again a source, a tensor of positions gives pixels (NCHW).

    A tensor, memory-mapped or not, is a source; so are image files, decoded only when their pixels are asked for.

    >>> isinstance(torch.zeros(2, 3, 8, 8, dtype=torch.uint8), ImageSource)
    True
    """

    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, index: slice, /) -> "ImageSource": ...

    @overload
    def __getitem__(self, index: Tensor, /) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class Labelled:
    """Images (uint8, NCHW) with one label each, and where they came from.

    Args:
        images: pixels, read when they are asked for.
        labels: the class of each image.
        name: of the data set, for tables.
        source: where they came from, in words.

    >>> digits = Labelled(torch.zeros(4, 1, 28, 28, dtype=torch.uint8), torch.arange(4), "digits", "made up")
    >>> digits.first(2)
    Labelled(digits: 2 images, from made up)
    """

    images: ImageSource
    labels: Int64[Tensor, "n"]
    name: str
    source: str

    def __post_init__(self) -> None:
        if len(self.images) != len(self.labels):
            raise FileFormatError(
                f"{self.name} ({self.source}) has {len(self.images)} images but {len(self.labels)} labels; "
                f"its files do not belong together. Delete them and fetch the set again."
            )

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"Labelled({self.name}: {len(self):,} images, from {self.source})"

    def first(self, limit: int | None) -> "Labelled":
        """The first `limit` images, or all of them."""
        if limit is None:
            return self
        if limit < 1:
            raise InputError(f"limit must be at least 1 image, not {limit}.")
        return replace(self, images=self.images[:limit], labels=self.labels[:limit])


@final
@dataclass(frozen=True, eq=False)
class ImageFolder:
    """Image files, each scaled so that its shorter side has `resize` pixels and cut to `size` around its centre.

    Published sets are read with `upright=False`: networks are trained, and corrupted copies were made, without it.

    Args:
        paths: the files.
        size: rows and columns that are cut out; None leaves the image as it is.
        resize: pixels of the shorter side before that; `size` unless given.
        grey: read one channel instead of three.
        upright: turn images as their cameras noted.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("RGB", (40, 30)).save(path := Path(folder) / "photo.png")
    ...     ImageFolder((path,), size=16, resize=20)[torch.tensor([0])].shape
    torch.Size([1, 3, 16, 16])
    """

    paths: tuple[Path, ...]
    size: int | None = SIDE
    resize: int | None = SHORT_SIDE
    grey: bool = False
    upright: bool = True

    def __len__(self) -> int:
        return len(self.paths)

    @overload
    def __getitem__(self, index: slice) -> "ImageFolder": ...
    @overload
    def __getitem__(self, index: Tensor) -> Tensor: ...
    def __getitem__(self, index: slice | Tensor) -> "ImageFolder | Tensor":
        if isinstance(index, slice):
            return replace(self, paths=self.paths[index])
        return stacked([self.decode(position) for position in index.tolist()])

    def decode(self, position: int, notes: list[str] | None = None) -> Tensor:
        """The pixels of one file; what was changed in reading it is added to `notes`."""
        image = open_image(self.paths[position], grey=self.grey, upright=self.upright, notes=notes)
        if not self.size:
            return to_pixels(image)
        short_side = self.resize or self.size
        check_scaled(self.paths[position], image.size, short_side)
        return to_pixels(centre(image, self.size, short_side))


def check_scaled(path: Path, size: Sequence[int], short_side: int) -> None:
    """Refuse an image so long and narrow that it would fill the memory when its shorter side is scaled up.

    >>> check_scaled(Path("a.png"), (640, 480), 256)
    >>> check_scaled(Path("a.png"), (1_000_000, 1), 256)
    Traceback (most recent call last):
    ...
    shiftmatch.errors.FileFormatError: a.png has 1000000 × 1 pixels, and more than 89,478,485 when its shorter side ...
    """
    if max(size) * short_side**2 > MAX_PIXELS * min(size):
        raise FileFormatError(
            f"{path} has {' × '.join(map(str, size))} pixels, and more than {MAX_PIXELS:,} when its shorter side is "
            f"scaled to {short_side}. Cut it, or take it out."
        )


def stacked(images: Sequence[Tensor]) -> Tensor:
    """Images of one size in one tensor."""
    if len(shapes := {tuple(image.shape) for image in images}) > 1:
        sizes = " and ".join(" × ".join(map(str, shape)) for shape in sorted(shapes)[:2])
        raise InputError(f"The images have different sizes, such as {sizes}. Pass the size to cut them to (--size).")
    return torch.stack(list(images))


def class_folders(folder: Path) -> tuple[ImageFolder, Int64[Tensor, "n"]]:
    """Every image in the class folders of `folder`, and its label: the rank of the class folder's name.

    A class-sorted order would give batches of a few classes, from which no fair statistics can be measured, and
    so would its first n. The order is that of a hash of each file's `class/name`: the same on every machine, and
    the same for the clean images and their corrupted copies.
    """
    classes = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    found = [(_hash(path), path, label) for label, kind in enumerate(classes) for path in image_files(kind.iterdir())]
    if not found:
        raise DataNotFoundError(f"{folder} has no class folders with {', '.join(SUFFIXES)} files in them.")
    _, paths, labels = zip(*sorted(found), strict=True)
    return ImageFolder(paths, upright=False), torch.tensor(labels)


def image_files(paths: Iterable[Path]) -> list[Path]:
    """Those files that are images by their names, in order; hidden ones are none."""
    return sorted(path for path in paths if path.suffix.lower() in SUFFIXES and not path.name.startswith("."))


def _hash(path: Path) -> bytes:
    return hashlib.blake2b(f"{path.parent.name}/{path.name}".encode(), digest_size=8).digest()


SUFFIXES = (".jpeg", ".jpg", ".png", ".webp", ".tif", ".tiff", ".bmp", ".gif")
MAX_PIXELS = 89_478_485
"""Larger images are refused, as they may be made to fill the memory; Pillow warns from here on."""
WHITE = (255, 255, 255, 255)


def open_image(
    path: str | PathLike[str], *, grey: bool = False, upright: bool = True, notes: list[str] | None = None
) -> Image.Image:
    """An image file in colour (or grey), in 8 bits.

    16 bits are scaled to 8, transparency is laid over white, and of several frames the first is taken.

    Args:
        path: the file.
        grey: one channel instead of three.
        upright: turn it as its camera noted.
        notes: a list, to which is added what was changed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("L", (40, 30)).save(path := Path(folder) / "photo.png")
    ...     open_image(path).mode
    'RGB'
    """
    path, notes = Path(path), [] if notes is None else notes
    if path.is_file() and not path.stat().st_size:
        raise FileFormatError(f"{path} is empty (0 bytes). Copy it again, or take it out.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Pillow: what it can read, it reads
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as file:
                if getattr(file, "n_frames", 1) > 1:
                    notes.append("the first of several frames or pages was taken")
                image = ImageOps.exif_transpose(file) if upright else file
                return _flat(path, image, notes, kind=file.format or "").convert("L" if grey else "RGB")
    except FileFormatError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise FileFormatError(
            f"{path} has more than {MAX_PIXELS:,} pixels and may be made to fill the memory. Scale it down, or take it "
            f"out."
        ) from error
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise FileFormatError(
            f"{path} cannot be read ({error.strerror}). Check its name and its permissions."
        ) from error
    except UnidentifiedImageError as error:
        raise FileFormatError(f"{path} is not an image of a known format. Take it out, or save it as PNG.") from error
    except Exception as error:  # Pillow's readers raise all kinds of errors for a damaged file
        raise FileFormatError(f"{path} is damaged ({error}). Copy it again, or take it out.") from error


def _flat(path: Path, image: Image.Image, notes: list[str], *, kind: str) -> Image.Image:
    """In 8 bits and without transparency."""
    if image.mode.startswith("I;16") or (image.mode == "I" and kind == "PNG"):
        return Image.fromarray(np.round(np.asarray(image).astype(np.float64) / 257).clip(0, 255).astype(np.uint8))
    if image.mode in ("I", "F"):
        values = np.asarray(image)
        if image.mode == "I" or not ((values >= 0) & (values <= 1)).all():
            raise FileFormatError(
                f"{path} has numbers from {values.min()} to {values.max()}, and nothing says which is black and white. "
                f"Save it in 8 or 16 bits."
            )
        return Image.fromarray(np.round(values * 255).astype(np.uint8))
    if not image.has_transparency_data:
        return image
    clear = image.convert("RGBA")
    if clear.getextrema()[-1] == (255, 255):
        return clear.convert("RGB")
    notes.append("transparency was laid over white")
    return Image.alpha_composite(Image.new("RGBA", clear.size, WHITE), clear).convert("RGB")


def centre(image: Image.Image, side: int, short_side: int) -> Image.Image:
    """The published preprocessing of ImageNet-C: resize the shorter side (bilinear), then crop the centre.

    >>> centre(Image.new("RGB", (640, 480)), 224, 256).size
    (224, 224)
    """
    if image.size == (side, side):
        return image
    scale = short_side / min(image.size)
    width, height = (max(side, round(scale * length)) for length in image.size)
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = (width - side) // 2, (height - side) // 2
    return resized.crop((left, top, left + side, top + side))


def to_pixels(image: Image.Image) -> UInt8[Tensor, "c h w"]:
    """The pixels of a colour or grey image.

    >>> to_pixels(Image.new("L", (3, 2))).shape
    torch.Size([1, 2, 3])
    """
    return torch.from_numpy(np.atleast_3d(np.array(image))).permute(2, 0, 1)
