"""One reader per published file format: paths in, images (uint8, NCHW) and labels out. Nothing is unpickled."""

import zlib
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor

from shiftmatch.data.images import ImageSource, class_folders
from shiftmatch.data.matlab import parse_matlab
from shiftmatch.errors import FileFormatError

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
        raise _wrong(path, "a complete .npy file of numbers", str(error)) from error


def _idx(path: Path, axes: int) -> NDArray[np.uint8]:
    with path.open("rb") as file:
        header = file.read(4 * (1 + axes))
    if len(header) != 4 * (1 + axes) or header[:4] != bytes([0, 0, UNSIGNED_BYTES, axes]):
        raise _wrong(path, f"an idx file of bytes with {axes} axes", f"one that begins with {header!r}")
    shape = tuple(np.frombuffer(header[4:], ">i4").tolist())
    if (size := path.stat().st_size) != len(header) + prod(shape):
        raise _wrong(path, f"{len(header) + prod(shape):,} bytes, as its header says", f"{size:,}")
    return np.memmap(path, np.uint8, _MAP, offset=len(header), shape=shape)


def _records(path: Path, length: int) -> NDArray[np.uint8]:
    size = path.stat().st_size
    if size == 0 or size % length:
        raise _wrong(path, f"whole records of {length} bytes", f"{size:,} bytes")
    return np.memmap(path, np.uint8, _MAP).reshape(-1, length)


def _wrong(path: Path, expected: str, found: str) -> FileFormatError:
    return FileFormatError(
        f"{path} is damaged or of another kind: expected {expected}, found {found}. Delete it and fetch it again."
    )
