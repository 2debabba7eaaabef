"""Our files: tensors in one safetensors file with one JSON header, written atomically, and checked when read."""

import hashlib
import json
import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from shiftmatch.errors import DataNotFoundError, FileFormatError, InputError
from shiftmatch.utils.files import atomic_path

T = TypeVar("T")

ATTEMPTS = 20
"""How often a file is read again that is being replaced."""

KEY = "shiftmatch"
"""Where the header lies in a safetensors file's metadata."""

CHECKSUM = "checksum"
"""The entry of the header that tells whether the tensors are those that were written."""

SIZE = struct.Struct("<Q")
"""The length of a safetensors file's own header, at its beginning."""

ALIGNMENT = 8
"""Tensors begin at multiples of so many bytes, as the format requires."""

_NAMES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.uint8: "U8"}


def save_tensors(
    path: str | PathLike[str], tensors: dict[str, Tensor], *, kind: str, version: int, header: dict[str, Any]
) -> None:
    """Write tensors and a header, atomically."""
    stored = _on_cpu(tensors)
    with atomic_path(path) as temporary:
        try:
            text = _header_text(kind, version, header | {CHECKSUM: _checksum(stored)})
            save_file(stored, temporary, {KEY: text})
        except SafetensorError as error:  # such as a full disk, of which only the words are left
            if found := re.search(r"os error (\d+)", str(error)):
                raise OSError(int(found[1]), os.strerror(int(found[1])), str(path)) from error
            raise


def save_rows(
    path: str | PathLike[str],
    rows: Iterable[dict[str, Tensor]],
    *,
    count: int,
    kind: str,
    version: int,
    header: dict[str, Any],
) -> None:
    """Write `count` rows of tensors as if stacked by name, atomically, with one row in memory at a time."""
    rows = iter(rows)
    first = next(rows)
    starts, entries, end = {}, {}, 0
    for name, tensor in first.items():
        starts[name], size = end, count * tensor.nbytes
        end += size
        shape = [count, *tensor.shape]
        entries[name] = {"dtype": _NAMES[tensor.dtype], "shape": shape, "data_offsets": [starts[name], end]}

    def head(checksums: list[str]) -> bytes:
        text = _header_text(kind, version, header | {CHECKSUM: checksums})
        found = json.dumps({"__metadata__": {KEY: text}, **entries}).encode()
        return found + b" " * (-len(found) % ALIGNMENT)

    checksums: list[str] = []
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        base = len(head([_checksum({})] * count)) + SIZE.size
        for row in chain([first], rows):
            stored = _on_cpu(row)
            for name, tensor in stored.items():
                file.seek(base + starts[name] + len(checksums) * tensor.nbytes)
                file.write(tensor.numpy().tobytes())
            checksums.append(_checksum(stored))
        if len(checksums) != count:
            raise InputError(f"{path} was to hold {count} rows; there were {len(checksums)}.")
        file.seek(0)
        file.write(SIZE.pack(base - SIZE.size) + head(checksums))


def load_tensors(path: str | PathLike[str], *, kind: str, version: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read tensors and header of a file of that kind; `version` is the newest format that can be understood."""

    def read() -> tuple[dict[str, Tensor], dict[str, Any]]:
        with _opened(path, kind, version) as (file, header):
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        known = header.pop(CHECKSUM, None)
        if isinstance(known, list):  # of rows, one by one
            if {len(tensor) if tensor.ndim else 0 for tensor in tensors.values()} - {len(known)}:
                raise FileFormatError(
                    f"{path} is damaged: it has checksums of {len(known)} rows. Make or copy it again."
                )
            for index, own in enumerate(known):
                _verify(path, {name: tensor[index] for name, tensor in tensors.items()}, own)
        else:
            _verify(path, tensors, known)
        return tensors, header

    return _read_whole(path, read)


def load_row(path: str | PathLike[str], index: int, *, kind: str, version: int) -> dict[str, Tensor]:
    """Read one row of what `save_rows` has written, and nothing else of it."""

    def read() -> dict[str, Tensor]:
        with _opened(path, kind, version) as (file, header):
            row = {name: file.get_slice(name)[index] for name in file.keys()}  # noqa: SIM118 (not a mapping)
        known = header.get(CHECKSUM)
        _verify(path, row, known[index] if isinstance(known, list) and index < len(known) else known)
        return row

    return _read_whole(path, read)


def _read_whole(path: str | PathLike[str], read: Callable[[], T]) -> T:
    """Read a file; again, if another process replaced it meanwhile: header and tensors are read one after the other."""
    for _ in range(ATTEMPTS):
        before = _inode_and_time(path)
        try:
            found = read()
        except FileFormatError:
            if _inode_and_time(path) == before:
                raise
        else:
            if _inode_and_time(path) == before:
                return found
    return read()


def _inode_and_time(path: str | PathLike[str]) -> tuple[int, int] | None:
    status = Path(path).stat() if Path(path).is_file() else None
    return status and (status.st_ino, status.st_mtime_ns)


def load_header(path: str | PathLike[str], *, kind: str, version: int) -> dict[str, Any]:
    """Read only the header."""
    with _opened(path, kind, version) as (_, header):
        return {name: value for name, value in header.items() if name != CHECKSUM}


def count_rows(path: str | PathLike[str], *, kind: str, version: int) -> int:
    """How many rows a file of `save_rows` holds, whatever its header says."""
    with _opened(path, kind, version) as (file, _):
        lengths = {tuple(file.get_slice(name).get_shape()[:1]) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    if len(lengths) != 1 or lengths == {()}:
        raise FileFormatError(f"{path} is damaged: its tensors have not one number of rows. Make or copy it again.")
    return int(lengths.pop()[0])


def _on_cpu(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _checksum(tensors: dict[str, Tensor]) -> str:
    """Of the names, kinds and bytes of tensors, in the order of their names."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _verify(path: str | PathLike[str], tensors: dict[str, Tensor], known: object) -> None:
    if known is not None and known != _checksum(tensors):
        raise FileFormatError(f"{path} is damaged: its numbers are not those that were written. Make or copy it again.")


def _header_text(kind: str, version: int, header: dict[str, Any]) -> str:
    return json.dumps({"kind": kind, "format": version, **header})


@contextmanager
def _opened(path: str | PathLike[str], kind: str, version: int) -> Iterator[tuple[Any, dict[str, Any]]]:
    if not Path(path).is_file():
        raise DataNotFoundError(f"There is no file {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get(KEY, "null"))
            _check(path, header, kind, version)
            yield file, header
    except (SafetensorError, json.JSONDecodeError, RecursionError) as error:
        raise FileFormatError(f"{path} is damaged or no safetensors file ({error}). Make or copy it again.") from error


def _check(path: str | PathLike[str], header: object, kind: str, version: int) -> None:
    if not isinstance(header, dict) or header.get("kind") != kind:
        found = header.get("kind") if isinstance(header, dict) else "a file of another program"
        raise FileFormatError(f"{path} does not hold {kind}, but {found}.")
    found_version = header.get("format")
    if not isinstance(found_version, int) or found_version > version:
        raise FileFormatError(
            f"{path} has format {found_version} of {kind}; this shiftmatch reads {version} at most: update it."
        )
