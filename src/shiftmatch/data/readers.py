"""One reader per published file format: paths in, images (uint8, NCHW) and labels out. Nothing is unpickled."""

import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from shiftmatch.data.images import ImageSource, check_scaled, class_folders
from shiftmatch.errors import FileFormatError
from shiftmatch.models.preprocessing import Preprocessing

Read = tuple[ImageSource, Int64[Tensor, "n"]]
Reader = Callable[[Sequence[Path]], Read]

# Arrays are mapped copy-on-write: large sets need no memory, and no write ever reaches the file.
_MAP: Literal["c"] = "c"
NUMPY_ERRORS = (ValueError, EOFError, OverflowError, MemoryError, RecursionError, SyntaxError, TypeError, TokenError)
"""What NumPy raises for headers that are not as they should be: it evaluates them as Python literals."""
UNSIGNED_BYTES = 0x08
"""The code of the type in an idx header."""


def read_idx(paths: Sequence[Path]) -> Read:
    """MNIST's format: an images file and a labels file, each a big-endian header and then bytes."""
    images, labels = (_idx(path, axes) for path, axes in zip(paths, (3, 1), strict=True))
    return torch.from_numpy(images)[:, None], torch.from_numpy(labels).long()


def read_cifar(paths: Sequence[Path], *, label_bytes: int = 1, classes: int = 10) -> Read:
    """CIFAR's binary format: records of label bytes (the last is the fine label) and 3 × 32 × 32 pixel bytes."""
    records = [_records(path, label_bytes + 3 * 32 * 32) for path in paths]
    whole = records[0] if len(records) == 1 else np.concatenate(records)
    images, labels = whole[:, label_bytes:].reshape(-1, 3, 32, 32), whole[:, label_bytes - 1].astype(np.int64)
    if (found := labels.max()) >= classes:
        raise _wrong(paths[0], f"labels below {classes}", f"a label {found}")
    return torch.from_numpy(images), torch.from_numpy(labels)


def read_arrays(paths: Sequence[Path]) -> Read:
    """Two .npy files: images uint8 NHWC, and labels."""
    images, labels = (read_array(path) for path in paths)
    if images.ndim != 4 or images.dtype != np.uint8:
        raise _wrong(paths[0], "uint8 images of shape N × H × W × C", f"{images.dtype} of shape {images.shape}")
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise _wrong(paths[1], "integer labels of shape N", f"{labels.dtype} of shape {labels.shape}")
    return torch.from_numpy(images).permute(0, 3, 1, 2), torch.from_numpy(labels.astype(np.int64))


def read_matlab(paths: Sequence[Path]) -> Read:
    """SVHN's format: X is H × W × C × N, y holds 1…10, where 10 stands for the digit 0."""
    (path,) = paths
    try:
        contents = parse_matlab(np.memmap(path, np.uint8, _MAP).data)
        images, labels = contents["X"].transpose(3, 2, 0, 1).astype(np.uint8, order="C"), contents["y"].ravel()
    except (ValueError, KeyError, zlib.error) as error:
        raise _wrong(path, "a MATLAB 5 file with the arrays X and y", repr(error)) from error
    if not np.isfinite(labels).all() or len(images) != len(labels):
        raise _wrong(path, "one label for each image", f"{len(images)} images, {labels.dtype} labels {labels.shape}")
    return torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64) % 10)


def read_pictures(paths: Sequence[Path]) -> Read:
    """ImageNet's layout: one folder per class, in it image files of any size; they are decoded when indexed."""
    (folder,) = paths
    return class_folders(folder)


def read_array(path: Path) -> NDArray[np.generic]:
    """A .npy file, memory-mapped; an array of Python objects is refused."""
    try:
        return np.lib.format.open_memmap(path, _MAP)
    except NUMPY_ERRORS as error:
        raise _wrong(path, "a complete .npy file of numbers", str(error).rstrip("."), "Save or fetch") from error


def _idx(path: Path, axes: int) -> NDArray[np.uint8]:
    with path.open("rb") as file:
        header = file.read(4 * (1 + axes))
    if len(header) != 4 * (1 + axes) or header[:4] != bytes([0, 0, UNSIGNED_BYTES, axes]):
        raise _wrong(path, f"an idx file of bytes with {axes} axes", f"one that begins with {header!r}")
    shape = tuple(np.frombuffer(header[4:], ">i4").tolist())
    if min(shape) < 0:
        raise _wrong(path, "lengths from 0 on in its header", str(shape))
    if (size := path.stat().st_size) != len(header) + prod(shape):
        raise _wrong(path, f"{len(header) + prod(shape):,} bytes, as its header says", f"{size:,}")
    return np.memmap(path, np.uint8, _MAP, offset=len(header), shape=shape)


def _records(path: Path, length: int) -> NDArray[np.uint8]:
    size = path.stat().st_size
    if size == 0 or size % length:
        raise _wrong(path, f"whole records of {length} bytes", f"{size:,} bytes")
    return np.memmap(path, np.uint8, _MAP).reshape(-1, length)


def _wrong(path: Path, expected: str, found: str, advice: str = "Delete it and fetch") -> FileFormatError:
    return FileFormatError(
        f"{path} is damaged or of another kind: expected {expected}, found {found}. {advice} it again."
    )


HEADER = 128
"""Bytes before the first element."""
TAG = struct.Struct("<II")
MATRIX, COMPRESSED = 14, 15
TYPES = {1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8", 12: "<i8", 13: "<u8"}
MAX_RATIO = 100
"""A compressed array may grow so many times; zeros would grow a thousandfold."""

Buffer = memoryview | bytes


def parse_matlab(content: Buffer) -> dict[str, NDArray[Any]]:
    """The arrays of numbers in a little-endian MATLAB 5 file, by name; a ValueError says what is wrong."""
    if bytes(content[126:HEADER]) != b"IM":
        raise ValueError("it does not begin as a little-endian MATLAB 5 file")
    return dict(_matrix(element) for kind, element in _elements(content[HEADER:]) if kind == MATRIX)


def _elements(content: Buffer) -> Iterator[tuple[int, Buffer]]:
    """The elements of a file or of a matrix: a type and a size, then bytes, filled up to multiples of eight."""
    at = 0
    while at + TAG.size <= len(content):
        kind, size = TAG.unpack_from(content, at)
        start = at + TAG.size
        if kind >> 16:  # a small element has its size and its bytes inside the tag
            kind, size, start = kind & 0xFFFF, kind >> 16, at + 4
        if start + size > len(content) or (start == at + 4 and size > 4):
            raise ValueError(f"it ends within an element of {size:,} bytes")
        element = content[start : start + size]
        if kind == COMPRESSED:
            yield from _elements(_decompress(element))
            at = start + size
        else:
            yield kind, element
            at = at + TAG.size if start == at + 4 else start + size + -size % 8


def _decompress(element: Buffer) -> bytes:
    packed = zlib.decompressobj()
    content = packed.decompress(element, max(1 << 20, MAX_RATIO * len(element)))
    if not packed.eof:
        raise ValueError("a compressed element is cut, or grows as if made to fill the memory")
    return content


def _matrix(content: Buffer) -> tuple[str, NDArray[Any]]:
    parts = list(_elements(content))
    if len(parts) != 4 or parts[3][0] not in TYPES:
        raise ValueError("it holds other things than arrays of real numbers")
    _, dims, name, (kind, numbers) = parts
    shape = np.frombuffer(dims[1], "<i4").tolist()
    if min(shape, default=-1) < 0:
        raise ValueError(f"an array has the shape {shape}")
    return bytes(name[1]).decode("ascii"), np.frombuffer(numbers, TYPES[kind]).reshape(shape, order="F")


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
            only = file.files[0] if len(file.files) == 1 else None
            called = next((name for name in IMAGE_ARRAYS if name in file), only)
            labelled = next((name for name in LABEL_ARRAYS if name in file), None)
            if called is None:
                raise FileFormatError(
                    f"{path} has no array called {', '.join(IMAGE_ARRAYS)}; it has {', '.join(file.files) or 'none'}. "
                    f"Save it with numpy.savez(path, images=..., labels=...)."
                )
            images, labels = file[called], file[labelled] if labelled else None
            if not isinstance(images, np.ndarray) or not isinstance(labels, np.ndarray | None):
                raise FileFormatError(f"{path} holds files that are no arrays of NumPy. Save it with numpy.savez.")
            return images, labels
    except (*NUMPY_ERRORS, OSError, LookupError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{path} is not a complete .npz file of numbers ({error}). Save it again.") from error


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
        check_scaled(path, pixels.shape[-2:], preprocessing.resize or size)
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
