"""corrupt(): the one entry to every corruption."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from shiftmatch.corruptions.noise import Generators
from shiftmatch.corruptions.ops import truncate_levels
from shiftmatch.corruptions.registry import Corruption, find, find_suite
from shiftmatch.errors import InputError
from shiftmatch.shapes import Images, Pixels

Batch = TypeVar("Batch")
"""A uint8 tensor or NumPy array of images."""

MIN_SIDE = 16
CHANNELS = (1, 3)
CHUNK_VALUES = 1 << 18
"""Large batches are worked off in chunks of about so many values, which stay in the processor's cache."""


def corrupt(
    images: Batch,
    name: str,
    *,
    severity: int | None = None,
    suite: str = "cifar10-c",
    seed: int = 0,
    frost: Path | None = None,
) -> Batch:
    """Corrupt images as the benchmark `suite` does, at a severity from 1 to 5.

    What becomes of an image depends on its pixels, the corruption and the seed alone, never on the rest of its batch.

    images: uint8, of any size from 16 x 16, with 1 or 3 channels: a tensor (batch, channels, rows, columns) on any
        device, or a NumPy array with its channels first or last. The result is of the same kind and shape.
    severity: without one, corruptions of "mnist-c" have their published strength; the other suites need it.
    seed: fixes what is random.
    frost: a folder with the published photographs of frost; `frost_source` says which pictures are used.

    >>> images = torch.zeros(2, 3, 32, 32, dtype=torch.uint8)
    >>> corrupt(images, "brightness", severity=5)[0, 0, 0, 0].item()
    76
    >>> corrupt(np.zeros((2, 32, 32, 3), np.uint8), "brightness", severity=5)[0, 0, 0].tolist()
    [76, 76, 76]
    """
    corruption = find(suite, name, severity)
    if name == "frost":
        corruption = replace(corruption, recipe=partial(corruption.recipe, folder=frost))
    key = (seed, suite, name, severity if severity is not None else corruption.published)
    pixels, channels_last = _to_pixels(images)
    rounds = find_suite(suite).rounds
    chunks = pixels.split(max(1, CHUNK_VALUES // pixels[0].numel())) if len(pixels) else ()
    done = [_to_uint8(_apply(corruption, chunk, severity, key), rounds) for chunk in chunks]
    corrupted = torch.cat(done) if done else pixels.clone()
    if isinstance(images, Tensor):
        return cast("Batch", corrupted)
    return cast("Batch", (corrupted.permute(0, 2, 3, 1).contiguous() if channels_last else corrupted).numpy())


def _apply(corruption: Corruption, images: Pixels, severity: int | None, key: tuple[object, ...]) -> Images:
    rng = (Generators.of(images, *key),) if corruption.random else ()
    return corruption.recipe(images.float() / 255, *rng, *corruption.level(severity))


def _to_uint8(x: Images, rounds: bool) -> Pixels:
    levels = x.clamp(0, 1) if rounds else truncate_levels(x)
    return (levels * 255).round().to(torch.uint8)


def _to_pixels(images: Any) -> tuple[Pixels, bool]:
    """The images as a tensor with channels first, and whether they were last; refuse what could mean something else."""
    if isinstance(images, Tensor):
        pixels, channels_last, cast_to = images, False, ".to(torch.uint8)"
    elif isinstance(images, np.ndarray):
        shape, cast_to = images.shape, ".astype(np.uint8)"
        channels_last = len(shape) == 4 and shape[1] not in CHANNELS and shape[3] in CHANNELS
        pixels = torch.from_numpy((np.moveaxis(images, 3, 1) if channels_last else images).copy())
    else:
        raise InputError(
            f"Corruptions take a uint8 tensor or NumPy array of images, got {type(images).__name__}. "
            f"For one picture, pass np.asarray(picture)[None]."
        )
    if pixels.dtype != torch.uint8:
        raise InputError(
            f"Corruptions take uint8 images with values from 0 to 255, got {images.dtype}. For values from 0 to 1, "
            f"pass (images * 255).round(){cast_to}; for values from 0 to 255, images.round(){cast_to}."
        )
    _check_shape(tuple(images.shape), tuple(pixels.shape))
    return pixels, channels_last


def _check_shape(given: tuple[int, ...], shape: tuple[int, ...]) -> None:
    if len(shape) != 4 or shape[1] not in CHANNELS:
        advice = {
            2: "For one grey image (rows, columns), pass images[None, None].",
            3: "For one image, pass images[None]; for grey images (batch, rows, columns), images[:, None].",
            4: "For channels last, pass images.permute(0, 3, 1, 2).",
        }
        raise InputError(
            f"Corruptions take images of shape (batch, channels, rows, columns) with 1 or 3 channels, got {given}. "
            + advice.get(len(shape), "")
        )
    if min(shape[-2:]) < MIN_SIDE:
        raise InputError(f"Corruptions take images of at least {MIN_SIDE} rows and columns, got {given}.")
