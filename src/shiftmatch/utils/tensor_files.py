"""Our files: tensors in one safetensors file with one JSON header, written whole and read with suspicion."""

import json
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from shiftmatch.errors import DataNotFoundError, FileFormatError, InputError
from shiftmatch.utils.files import atomic_path

KEY = "shiftmatch"
"""Where the header lies in a safetensors file's metadata."""

ALIGNMENT = 8
"""Tensors begin at multiples of so many bytes, as the format wants it."""

_NAMES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.uint8: "U8"}


def save_tensors(
    path: str | PathLike[str], tensors: dict[str, Tensor], *, kind: str, version: int, header: dict[str, Any]
) -> None:
    """Write tensors and a header, atomically."""
    with atomic_path(path) as temporary:
        contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
        save_file(contiguous, temporary, {KEY: _header_text(kind, version, header)})


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
    head = json.dumps({"__metadata__": {KEY: _header_text(kind, version, header)}, **entries}).encode()
    head += b" " * (-len(head) % ALIGNMENT)
    written = 0
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        base = file.tell()
        for row in chain([first], rows):
            for name, tensor in row.items():
                file.seek(base + starts[name] + written * tensor.nbytes)
                file.write(tensor.contiguous().numpy().tobytes())
            written += 1
        if written != count:
            raise InputError(f"{path} was to hold {count} rows; there were {written}.")


def load_tensors(path: str | PathLike[str], *, kind: str, version: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read tensors and header of a file of that kind; `version` is the newest format that can be understood."""
    with _opened(path, kind, version) as (file, header):
        return {name: file.get_tensor(name) for name in file.keys()}, header  # noqa: SIM118 (not a mapping)


def load_row(path: str | PathLike[str], index: int, *, kind: str, version: int) -> dict[str, Tensor]:
    """Read one row of what `save_rows` has written, and nothing else of it."""
    with _opened(path, kind, version) as (file, _):
        return {name: file.get_slice(name)[index] for name in file.keys()}  # noqa: SIM118 (not a mapping)


def load_header(path: str | PathLike[str], *, kind: str, version: int) -> dict[str, Any]:
    """Read the header alone."""
    with _opened(path, kind, version) as (_, header):
        return header


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
    except (SafetensorError, json.JSONDecodeError) as error:
        raise FileFormatError(f"{path} is damaged or no safetensors file ({error}). Make or copy it again.") from error


def _check(path: str | PathLike[str], header: object, kind: str, version: int) -> None:
    if not isinstance(header, dict) or header.get("kind") != kind:
        found = header.get("kind") if isinstance(header, dict) else "a file of another program"
        raise FileFormatError(f"{path} does not hold {kind}, but {found}.")
    if header.get("format", version + 1) > version:
        raise FileFormatError(
            f"{path} has format {header.get('format')} of {kind}; this shiftmatch reads {version} at most: update it."
        )
