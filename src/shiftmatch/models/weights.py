"""Reading a network's weights from the files that people keep them in; nothing in a file is ever run."""

import pickle
import zipfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from shiftmatch.errors import DataNotFoundError, FileFormatError, InputError, NonFiniteError

LAYOUTS = ("state_dict", "model_state_dict", "model_state", "model", "net", "network", "weights", "params")
"""Under which of these a checkpoint keeps the weights, beside the epoch, the optimiser and the like."""
PREFIXES = ("module.", "_orig_mod.", "model.", "net.", "network.")
"""What DataParallel, torch.compile, Lightning and others put before every name."""
MAX_SHOWN = 4


def load_weights(model: nn.Module, path: str | PathLike[str]) -> None:
    """Load a state_dict into `model` from a safetensors or .pt file; the latter is opened without running code.

    Checkpoints with a state_dict under `state_dict`, `model_state_dict`, `model` and the like are understood, and names
    that begin with `module.` throughout.

    Args:
        model: what they are loaded into.
        path: the file.

    >>> import tempfile
    >>> layer = nn.Linear(1, 1)
    >>> with tempfile.NamedTemporaryFile(suffix=".pt") as file:
    ...     state = {"module.weight": torch.ones(1, 1), "module.bias": torch.full((1,), 7.0)}
    ...     torch.save({"epoch": 3, "state_dict": state}, file.name)
    ...     load_weights(layer, file.name)
    >>> layer.bias.item()
    7.0
    """
    state = _without_prefixes(_find_state(_read(Path(path)), path), model)
    wanted = model.state_dict()
    lacks = [name for name in wanted if name not in state and not name.endswith("num_batches_tracked")]
    foreign = [name for name in state if name not in wanted]
    other = [
        f"{name} of shape {tuple(state[name].shape)}, not {tuple(tensor.shape)}"
        for name, tensor in wanted.items()
        if name in state and state[name].shape != tensor.shape
    ]
    problems = [
        f"{what} {', '.join(names[:MAX_SHOWN])}{', …' if len(names) > MAX_SHOWN else ''} ({len(names)} of {of})"
        for what, names, of in (
            ("it lacks", lacks, len(wanted)),
            ("the network has no", foreign, len(state)),
            ("it has", other, len(wanted)),
        )
        if names
    ]
    if problems:
        raise InputError(f"The weights in {path} are not those of this network: {'; '.join(problems)}.")
    model.load_state_dict(state, strict=False)
    check_finite(model, str(path))


def check_finite(model: nn.Module, source: str) -> None:
    """Refuse weights that are NaN or infinite: every prediction would be."""
    for name, tensor in model.state_dict().items():
        if isinstance(tensor, Tensor) and not tensor.isfinite().all():
            raise NonFiniteError(
                f"The weights {name} in {source} hold NaN or infinity: training diverged, or the file is damaged. "
                f"Use a checkpoint from before."
            )


def _read(path: Path) -> Any:
    if not path.is_file():
        raise DataNotFoundError(f"There is no file {path}.")
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    if _is_scripted(path):
        raise InputError(
            f"{path} is a TorchScript program: its layers are compiled into it and cannot be matched. Save only the "
            f"weights, torch.save(torch.jit.load('{path.name}').state_dict(), 'net.pt'), and name the function that "
            f"builds the network."
        )
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        with path.open("rb") as file:
            if file.read(9)[8:] == b"{":  # safetensors under another name: a length, then JSON
                return _read_safetensors(path)
        raise FileFormatError(
            f"{path} holds more than weights (such as a whole pickled network), and opening that could run code, or it "
            f"is no file of torch.save. Save only the weights: torch.save(net.state_dict(), 'net.pt')."
        ) from error
    except Exception as error:  # torch's reader raises whatever it meets in a damaged file
        raise FileFormatError(f"{path} is damaged or no file of weights ({error}). Copy or save it again.") from error


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, ValueError) as error:
        raise FileFormatError(
            f"{path} is damaged or no safetensors file ({error}). Write one with "
            f"safetensors.torch.save_file(net.state_dict(), path)."
        ) from error


def _is_scripted(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as file:
            return any("/code/" in name for name in file.namelist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError):  # no archive, or a damaged one
        return False


def _find_state(found: Any, path: str | PathLike[str]) -> dict[str, Tensor]:
    """The mapping from names to tensors, itself or in one of the usual places of a checkpoint."""
    while isinstance(found, Mapping):
        if found and all(isinstance(name, str) and isinstance(value, Tensor) for name, value in found.items()):
            return dict(found)
        nested = [found[key] for key in LAYOUTS if isinstance(found.get(key), Mapping)]
        if not nested:
            keys = ", ".join(map(str, list(found)[:8]))
            raise FileFormatError(
                f"{path} has no state_dict: expected names with tensors, or such under one of {', '.join(LAYOUTS)}; "
                f"found {keys or 'nothing'}."
            )
        found = nested[0]
    raise FileFormatError(f"{path} holds a {type(found).__name__}; expected a state_dict: names with tensors.")


def _without_prefixes(state: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    wanted = model.state_dict().keys()
    while not wanted & state.keys():
        prefix = next((p for p in PREFIXES if all(name.startswith(p) for name in state)), None)
        if prefix is None:
            break
        state = {name.removeprefix(prefix): tensor for name, tensor in state.items()}
    return state
