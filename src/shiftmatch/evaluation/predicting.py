"""What methods say of images that come in batches."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from shiftmatch.errors import InputError, ShiftMatchError
from shiftmatch.shapes import Pixels

Predictor: TypeAlias = Callable[[Tensor], Tensor]
"""Images as a network takes them in, probabilities out."""

Preprocess: TypeAlias = Callable[[Tensor], Tensor]
"""Pixels from 0 to 255 in, images as a network takes them out."""


@runtime_checkable
class Episodic(Protocol):
    """A predictor that changes with what it sees."""

    def reset(self) -> None:
        """Forget it."""


def predict_all(
    methods: Mapping[str, Predictor],
    batches: Iterable[tuple[Pixels, Int64[Tensor, "b"]]],
    preprocess: Preprocess,
) -> tuple[dict[str, Float[Tensor, "n k"]], Int64[Tensor, "n"]]:
    """What every method says of all images, and their labels; the images of one batch are in memory at a time."""
    for predict in methods.values():
        if isinstance(predict, Episodic):
            predict.reset()
    found: dict[str, list[Tensor]] = {name: [] for name in methods}
    labels = []
    for pixels, expected in batches:
        inputs = preprocess(pixels)
        labels.append(expected)
        for name, predict in methods.items():
            with naming(name), torch.no_grad():
                found[name].append(_checked(predict(inputs), len(pixels)))
    return {name: torch.cat(parts) for name, parts in found.items()}, torch.cat(labels)


@contextmanager
def naming(method: str) -> Iterator[None]:
    """Errors inside say which method they come from."""
    try:
        yield
    except ShiftMatchError as error:
        raise type(error)(f"{method}: {error}") from None


def _checked(probabilities: Tensor, images: int) -> Float[Tensor, "b k"]:
    if probabilities.ndim != 2 or len(probabilities) != images:
        raise InputError(
            f"Expected the probabilities of {images} images, one row for each; got a tensor of shape "
            f"{tuple(probabilities.shape)}. A method takes a batch of images and returns probabilities: "
            "shiftmatch.average([network]) makes one of a network."
        )
    return probabilities.detach().cpu()
