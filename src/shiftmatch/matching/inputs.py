"""Batches of every kind that loaders yield, as the arguments of a network."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import FunctionType
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from shiftmatch.errors import InputError

INPUT = "input"
"""The site of the network's own input; with several inputs, `input[argument]`."""

LABELS = ("label", "labels", "target", "targets")
"""What collators call the labels in a dictionary."""

BATCH_SIZE = 256
"""Images per batch when all of them come as one tensor."""


@final
@dataclass(frozen=True)
class Inputs:
    """The arguments of one call of a network.

    >>> Inputs.of((torch.zeros(2, 3), torch.tensor([0, 1]))).images
    2
    """

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, batch: object) -> "Inputs":
        """What a network takes of a batch: a tensor, (inputs, labels), ((input, input), labels), or a dictionary.

        The labels of a dictionary are left out; its other tensors are keyword arguments, as Hugging Face collators
        make them.
        """
        if isinstance(batch, Inputs):
            return batch
        if isinstance(batch, list | tuple):
            batch = _without_labels(batch)
        if isinstance(batch, Tensor):
            return cls((batch,))
        if isinstance(batch, Mapping):
            found = {name: value for name, value in batch.items() if name not in LABELS}
            if any(isinstance(value, Tensor) for value in found.values()):
                return cls((), found)
        if isinstance(batch, list | tuple) and batch and all(isinstance(x, Tensor) for x in batch):
            return cls(tuple(batch))
        keys = f"a dictionary with {', '.join(map(str, batch))}" if isinstance(batch, Mapping) else ""
        described = keys or f"a {type(batch).__name__}"
        raise InputError(
            "A batch is a tensor, (inputs, labels) with the inputs first, ((input, other input), labels), or a "
            f"dictionary of tensors such as {{'pixel_values': images}}; got {described}."
        )

    @property
    def images(self) -> int:
        return max((len(x) for x in self.tensors() if x.ndim), default=0)

    def tensors(self) -> list[Tensor]:
        return [x for x in (*self.args, *self.kwargs.values()) if isinstance(x, Tensor)]

    def at(self, places: slice | Tensor) -> "Inputs":
        """The inputs of some of the images."""
        total = self.images

        def few(value: Any) -> Any:
            return value[places] if isinstance(value, Tensor) and value.ndim and len(value) == total else value

        return Inputs(tuple(map(few, self.args)), {name: few(value) for name, value in self.kwargs.items()})

    def on(self, model: nn.Module, device: torch.device | str | None = None) -> "Inputs":
        """The inputs on the model's device, floating-point tensors in its precision."""
        like = next((p for p in model.parameters() if p.is_floating_point()), None)
        if like is None:
            return self

        def moved(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            return value.to(device or like.device, like.dtype if value.is_floating_point() else value.dtype)

        return Inputs(tuple(map(moved, self.args)), {name: moved(value) for name, value in self.kwargs.items()})

    def named(self, model: nn.Module) -> dict[str, Tensor]:
        """The floating-point inputs by the name of their site, positional and by keyword alike.

        >>> list(Inputs((torch.zeros(1, 2),)).named(nn.Linear(2, 2)))
        ['input']
        """
        values, sites = self._by_argument(model)
        return {site: values[name] for name, site in sites.items()}

    def mapped(self, model: nn.Module, operations: Mapping[str, Callable[[Tensor], Tensor]]) -> "Inputs":
        """The inputs with an operation applied at some sites."""
        values, sites = self._by_argument(model)
        for name, site in sites.items():
            if site in operations:
                values[name] = operations[site](values[name])
        new, count = list(values.values()), len(self.args)
        return Inputs(tuple(new[:count]), dict(zip(self.kwargs, new[count:], strict=True)))

    def _by_argument(self, model: nn.Module) -> tuple[dict[str, Any], dict[str, str]]:
        """All values by the name of their argument, and of those that are features the name of the site."""
        values = dict(zip(_positional_names(model, len(self.args)), self.args, strict=True)) | dict(self.kwargs)
        found = [name for name, value in values.items() if is_features(value)]
        return values, {name: INPUT if len(found) == 1 else f"{INPUT}[{name}]" for name in found}


def batches_of(data: Iterable[Any], batch_size: int = BATCH_SIZE) -> Iterable[Any]:
    """Data as batches: a loader as it is, one tensor of images in parts.

    >>> [len(part) for part in batches_of(torch.zeros(5, 3), batch_size=4)]
    [4, 1]
    """
    return data.split(batch_size) if isinstance(data, Tensor) else data


def logits_of(output: Any) -> Tensor:
    """The logits in what a network returns: a tensor, a Hugging Face output, a dictionary, or the first of several.

    >>> logits_of({"logits": torch.zeros(2, 3)}).shape
    torch.Size([2, 3])
    """
    if isinstance(output, Mapping) and "logits" in output:
        output = output["logits"]
    output = getattr(output, "logits", output)
    if isinstance(output, list | tuple) and output:
        output = output[0]
    if not isinstance(output, Tensor):
        raise InputError(
            f"Expected logits, as a tensor or in an output that has them as `.logits`; got a {type(output).__name__}."
        )
    return output


def is_features(value: object) -> bool:
    """Whether a value is a batch of floating-point features."""
    return isinstance(value, Tensor) and value.is_floating_point() and value.ndim >= 2


def check_images(inputs: Inputs) -> Inputs:
    """The same inputs; refused if they look like images but are not in floating point."""
    for value in (*inputs.args, *inputs.kwargs.values()):
        if isinstance(value, np.ndarray):
            raise InputError("Images are a torch tensor here; got a NumPy array. Pass torch.from_numpy(images).")
        if isinstance(value, Tensor) and value.dtype == torch.uint8:
            raise InputError(
                "Images are in floating point, as the network takes them; got uint8 pixels. Preprocess them as in "
                "training, such as (images / 255 - mean) / std."
            )
    return inputs


def _without_labels(batch: Sequence[Any]) -> object:
    tensors = [x for x in batch if isinstance(x, Tensor)]
    if len(batch) > 2 and len(tensors) == len(batch):
        raise InputError(
            f"A batch of {len(batch)} tensors does not say which are inputs and which are labels. Let the loader yield "
            "((img, meta), label): the inputs of the network as one tuple, then the labels."
        )
    return batch[0] if batch else batch


def _positional_names(model: nn.Module, count: int) -> list[str]:
    forward = getattr(model.forward, "__func__", None)
    names = _arguments(forward)[1:] if isinstance(forward, FunctionType) else _arguments.__wrapped__(model.forward)
    return [names[i] if i < len(names) else str(i) for i in range(count)]


@lru_cache
def _arguments(function: Callable[..., Any]) -> list[str]:
    """The names of positional arguments, cached: looking them up takes as long as a small layer."""
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
