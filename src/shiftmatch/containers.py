"""Our files: tensors in one safetensors file with one JSON header, written whole and read with suspicion."""

import json
from os import PathLike
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from shiftmatch.errors import DataNotFoundError, FileFormatError
from shiftmatch.files import atomic_path

KEY = "shiftmatch"
"""Where the header lies in a safetensors file's metadata."""


def save_tensors(
    path: str | PathLike[str], tensors: dict[str, Tensor], *, kind: str, version: int, header: dict[str, Any]
) -> None:
    """Write tensors and a header, atomically."""
    text = json.dumps({"kind": kind, "format": version, **header})
    with atomic_path(path) as temporary:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, temporary, {KEY: text})


def load_tensors(path: str | PathLike[str], *, kind: str, version: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read tensors and header of a file of that kind; `version` is the newest format that can be understood."""
    if not Path(path).is_file():
        raise DataNotFoundError(f"There is no file {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get(KEY, "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, ValueError) as error:
        raise FileFormatError(f"{path} is damaged or no safetensors file ({error}). Make or copy it again.") from error
    if not isinstance(header, dict) or header.get("kind") != kind:
        found = header.get("kind") if isinstance(header, dict) else "a file of another program"
        raise FileFormatError(f"{path} does not hold {kind}, but {found}.")
    if header.get("format", version + 1) > version:
        raise FileFormatError(
            f"{path} has format {header.get('format')} of {kind}; this shiftmatch reads {version} at most: update it."
        )
    return tensors, header
