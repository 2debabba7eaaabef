"""MATLAB 5 files of plain arrays, read by ourselves: SciPy's reader crashes the process on some damaged ones."""

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
