"""A run on disk: the last state and every draw, written so that a kill at any moment loses at most one iteration."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from shiftmatch.errors import FileFormatError, InputError
from shiftmatch.samplers.interface import State
from shiftmatch.samplers.params import Params
from shiftmatch.utils.tensor_files import load_tensors, save_tensors

S = TypeVar("S", bound=State)
SEPARATOR = "/"
STATE, DRAW = "the state of a run", "a draw"
VERSION = 1


@dataclass(frozen=True)
class RunFolder:
    """Where one run keeps its state and draws; `settings` tell it apart from other runs."""

    path: Path
    settings: Mapping[str, Any]

    def save(self, state: State, generator: torch.Generator, trace: Mapping[str, list[float]], draws: int) -> None:
        """Store everything that the next iteration depends on, in one atomic file."""
        tensors = flatten(state) | {"generator": generator.get_state()}
        header = {"settings": self.settings, "trace": trace, "draws": draws}
        save_tensors(self._state, tensors, kind=STATE, version=VERSION, header=header)

    def save_draw(self, index: int, params: Params) -> None:
        """Store one draw. It is written before the state that counts it, so a kill in between changes nothing."""
        save_tensors(self._draw(index), params, kind=DRAW, version=VERSION, header={})

    def restore(self, like: S, generator: torch.Generator) -> tuple[S, dict[str, list[float]], list[Params]] | None:
        """The last state, the trace and the draws so far, with the generator set back; None if there is no run yet."""
        if not self._state.exists():
            return None
        tensors, header = load_tensors(self._state, kind=STATE, version=VERSION)
        self._check(header["settings"])
        generator.set_state(tensors.pop("generator"))
        files = [self._draw(index) for index in range(header["draws"])]
        draws = [load_tensors(file, kind=DRAW, version=VERSION)[0] for file in files]
        return unflatten(tensors, like), header["trace"], draws

    @property
    def _state(self) -> Path:
        return self.path / "state.safetensors"

    def _draw(self, index: int) -> Path:
        return self.path / f"draw-{index:05d}.safetensors"

    def _check(self, stored: Mapping[str, Any]) -> None:
        for name, value in self.settings.items():
            if stored.get(name) != value:
                raise InputError(
                    f"{self.path} holds a run with {name}={stored.get(name)}, not {value}. "
                    f"Use the same settings to go on with it, or another folder to start afresh."
                )


def flatten(state: State) -> dict[str, Tensor]:
    """The tensors of a state by name; those of a mapping are named field/key."""
    flat: dict[str, Tensor] = {}
    for field, value in state._asdict().items():
        flat |= {field: value} if isinstance(value, Tensor) else {f"{field}{SEPARATOR}{k}": v for k, v in value.items()}
    return flat


def unflatten(tensors: Mapping[str, Tensor], like: S) -> S:
    """The inverse of `flatten`, with the structure of the state `like`."""
    expected = flatten(like)
    if tensors.keys() != expected.keys():
        raise FileFormatError(
            f"The stored state has {sorted(tensors.keys() ^ expected.keys())} more or less than this sampler's. "
            f"Go on with the sampler and the network that began the run, or use another folder."
        )
    fields = {
        field: tensors[field] if isinstance(value, Tensor) else {k: tensors[f"{field}{SEPARATOR}{k}"] for k in value}
        for field, value in like._asdict().items()
    }
    return type(like)(**fields)
