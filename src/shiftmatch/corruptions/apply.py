"""corrupt(): the one entry to every corruption."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from shiftmatch.corruptions.levels import cut_levels
from shiftmatch.corruptions.randomness import Streams
from shiftmatch.corruptions.registry import Corruption, find, find_suite
from shiftmatch.errors import InputError
from shiftmatch.shapes import Images, Pixels

SMALLEST_SIDE = 16
VALUES_AT_ONCE = 1 << 18
"""Large batches are worked off in pieces of about so many values, which stay in the processor's cache."""


def corrupt(
    images: Tensor,
    name: str,
    *,
    severity: int | None = None,
    suite: str = "cifar10-c",
    seed: int = 0,
    frost: Path | None = None,
) -> Pixels:
    """Corrupt images as the benchmark `suite` does, at a severity from 1 to 5.

    Takes and returns uint8 images (batch, channels, rows, columns) of any size, with 1 or 3 channels, on any device.
    What becomes of an image depends on its pixels, the corruption and the seed alone, never on the rest of its batch.
    Without a severity, corruptions of "mnist-c" have their published strength. `frost` names a folder with the
    published photographs of frost; `frost_source` says which pictures are used.

    >>> images = torch.zeros(2, 3, 32, 32, dtype=torch.uint8)
    >>> corrupt(images, "brightness", severity=5)[0, 0, 0, 0].item()
    76
    """
    corruption = find(suite, name, severity)
    _check(images)
    if name == "frost":
        corruption = replace(corruption, recipe=partial(corruption.recipe, folder=frost))
    size = max(1, VALUES_AT_ONCE // images[:1].numel()) if len(images) else 1
    pieces = [images[start : start + size] for start in range(0, len(images), size)]
    key = (seed, suite, name, severity if severity is not None else corruption.published)
    rounds = find_suite(suite).rounds
    done = [_quantise(_apply(corruption, piece, severity, key), rounds) for piece in pieces]
    return torch.cat(done) if done else images.clone()


def _apply(corruption: Corruption, images: Pixels, severity: int | None, key: tuple[object, ...]) -> Images:
    x = images.float() / 255
    streams = (Streams.of(images, *key),) if corruption.random else ()
    return corruption.recipe(x, *streams, *corruption.level(severity))


def _quantise(x: Images, rounds: bool) -> Pixels:
    levels = x.clamp(0, 1) if rounds else cut_levels(x)
    return (levels * 255).round().to(torch.uint8)


def _check(images: Tensor) -> None:
    if images.dtype != torch.uint8:
        raise InputError(
            f"Corruptions take uint8 images with values from 0 to 255, got {images.dtype}. "
            f"For values from 0 to 1, pass (images * 255).round().to(torch.uint8)."
        )
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise InputError(
            f"Corruptions take images of shape (batch, channels, rows, columns) with 1 or 3 channels, "
            f"got {tuple(images.shape)}. For channels last, pass images.permute(0, 3, 1, 2)."
        )
    if min(images.shape[-2:]) < SMALLEST_SIDE:
        raise InputError(
            f"Corruptions take images of at least {SMALLEST_SIDE} rows and columns, got {tuple(images.shape)}."
        )
