"""Arrays of images as users have them: which axis is which, what the numbers mean, and refusing what is not clear."""

import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from shiftmatch.data.readers import NUMPY_ERRORS, read_array
from shiftmatch.errors import FileFormatError
from shiftmatch.models.preprocessing import Preprocessing

Array = NDArray[np.generic]
CHANNELS = (1, 3)
IMAGE_ARRAYS, LABEL_ARRAYS = ("images", "x", "X"), ("labels", "y", "Y")
"""What the arrays of an .npz file may be called."""
LUMA = (0.299, 0.587, 0.114)
"""Shares of red, green and blue in grey, as for image files (ITU-R 601)."""


def read_npz(path: Path) -> tuple[Array, Array | None]:
    """The images and, if there are any, the labels of an .npz file."""
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            names = {kind: next((n for n in known if n in file), "") for kind, known in _NAMES.items()}
            if not names["images"] and len(file.files) == 1:
                names["images"] = file.files[0]
            if not names["images"]:
                raise FileFormatError(
                    f"{path} has no array called {', '.join(IMAGE_ARRAYS)}; it has {', '.join(file.files) or 'none'}."
                )
            images, labels = file[names["images"]], file[names["labels"]] if names["labels"] else None
            if not isinstance(images, np.ndarray) or not isinstance(labels, np.ndarray | None):
                raise FileFormatError(f"{path} holds files that are no arrays of NumPy. Save it with numpy.savez.")
            return images, labels
    except (*NUMPY_ERRORS, OSError, LookupError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{path} is not a complete .npz file of numbers ({error}). Save it again.") from error


_NAMES = {"images": IMAGE_ARRAYS, "labels": LABEL_ARRAYS}


def read_arrays(path: Path) -> tuple[Array, Array | None]:
    """The images, and perhaps labels, of an .npy or .npz file."""
    return (read_array(path), None) if path.suffix == ".npy" else read_npz(path)


def to_images(path: Path, array: Array, preprocessing: Preprocessing, notes: list[str]) -> Tensor:
    """Images (NCHW) of bytes, or of numbers from 0 to 1, cut and made grey as `preprocessing` says."""
    pixels = _channels_first(path, _values(path, array, notes), grey=preprocessing.grey)
    if preprocessing.grey and pixels.shape[1] == 3:
        weights = torch.tensor(LUMA)[:, None, None]
        grey = (pixels.float() * weights).sum(1, keepdim=True)
        pixels = grey.round().byte() if pixels.dtype == torch.uint8 else grey
        notes.append("colour images were made grey")
    elif pixels.shape[1] == 1 and len(preprocessing.mean) == 3:
        pixels = pixels.expand(-1, 3, -1, -1)
        notes.append("grey images were given three equal channels")
    if (size := preprocessing.size) and pixels.shape[-2:] != (size, size):
        notes.append(f"images of {pixels.shape[-2]} × {pixels.shape[-1]} were scaled and cut to {size} × {size}")
        pixels = _centre(pixels, size, preprocessing.resize or size)
    return pixels


def to_labels(path: Path, array: Array, count: int) -> tuple[Int64[Tensor, "n"], tuple[str, ...]]:
    """Labels as numbers, and the names of the classes if the labels are words."""
    if array.shape not in ((count,), (count, 1)):
        raise FileFormatError(f"{path} has {count} images, but labels of shape {array.shape}; expected ({count},).")
    flat = array.ravel()
    if flat.dtype.kind in "US":
        classes, numbers = np.unique(flat.astype(str), return_inverse=True)
        return torch.from_numpy(numbers.astype(np.int64)), tuple(classes.tolist())
    if flat.dtype.kind not in "iufb" or not np.array_equal(whole := flat.astype(np.int64), flat) or (whole < 0).any():
        raise FileFormatError(f"{path} has labels of {flat.dtype}; expected whole numbers from 0 on, or words.")
    return torch.from_numpy(whole), ()


def _values(path: Path, array: Array, notes: list[str]) -> Tensor:
    """Bytes, or numbers from 0 to 1. Whole numbers from 0 to 255 are bytes whatever their type."""
    if not array.size:
        raise FileFormatError(f"{path} holds no images: its shape is {array.shape}.")
    kind = array.dtype.kind
    if array.dtype == np.uint8:
        return torch.from_numpy(array)
    if kind == "b":
        return torch.from_numpy(array.astype(np.uint8) * np.uint8(255))
    if kind not in "iuf":
        raise FileFormatError(f"{path} holds {array.dtype}; expected bytes (uint8), or numbers from 0 to 1.")
    finite = array if kind in "iu" else np.where(np.isfinite(array), array, 0)
    low, high = float(finite.min()), float(finite.max())
    if kind == "f" and low >= 0 and high <= 1:
        return torch.from_numpy(array.astype(np.float32))
    if low >= 0 and high <= 255 and np.isfinite(array).all() and np.array_equal(finite, np.round(finite)):
        notes.append(f"whole numbers up to {high:.0f} were read as bytes, from 0 to 255")
        return torch.from_numpy(array.astype(np.uint8))
    raise FileFormatError(
        f"{path} holds {array.dtype} from {low:g} to {high:g}; expected bytes (uint8), or numbers from 0 to 1. "
        f"Save the images as they are before any normalisation, divided by their largest possible value."
    )


def _channels_first(path: Path, pixels: Tensor, *, grey: bool) -> Tensor:
    shape = tuple(pixels.shape)
    if pixels.ndim == 3 and shape[-1] in CHANNELS:
        pixels = pixels[None]
    elif pixels.ndim == 3 and shape[0] == 3 and not grey:
        raise FileFormatError(
            f"{path} has the shape {shape}: one colour image, or three grey ones? Save array[None] if it is one image, "
            f"array[:, None] if there are three."
        )
    elif pixels.ndim == 3:
        pixels = pixels[:, None]
    if pixels.ndim != 4 or not (pixels.shape[1] in CHANNELS or pixels.shape[-1] in CHANNELS):
        raise FileFormatError(
            f"{path} has the shape {shape}; expected N × H × W, N × H × W × C or N × C × H × W with 1 or 3 channels."
        )
    return pixels if pixels.shape[1] in CHANNELS else pixels.permute(0, 3, 1, 2)


def _centre(pixels: Tensor, size: int, short_side: int) -> Tensor:
    """As for image files: the shorter side to `short_side`, then the centre."""
    scale = short_side / min(pixels.shape[-2:])
    height, width = (max(size, round(scale * side)) for side in pixels.shape[-2:])
    scaled = interpolate(pixels.float(), (height, width), mode="bilinear", antialias=True, align_corners=False)
    top, left = (height - size) // 2, (width - size) // 2
    cut = scaled[..., top : top + size, left : left + size]
    return cut.round().clamp(0, 255).byte() if pixels.dtype == torch.uint8 else cut.clamp(0, 1)
