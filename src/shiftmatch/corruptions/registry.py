"""Which corruptions there are (suite -> name -> recipe and levels), and corrupt(), the one entry to all of them."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, SupportsIndex, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from shiftmatch.corruptions import blur, digital, frost, mnist, noise, severities, weather
from shiftmatch.corruptions.noise import Generators
from shiftmatch.corruptions.ops import truncate_levels
from shiftmatch.corruptions.severities import Level, Levels
from shiftmatch.errors import InputError
from shiftmatch.shapes import Images, Pixels

Batch = TypeVar("Batch")
"""A uint8 tensor or NumPy array of images."""

MIN_SIDE = 16
CHANNELS = (1, 3)
CHUNK_VALUES = 1 << 18
"""Large batches are worked off in chunks of about so many values, which stay in the processor's cache."""

Recipe = Callable[..., Images]
"""Images in [0, 1], the random generators (`rng`) if it takes any, and the parameters of the level in; images out."""


@dataclass(frozen=True)
class Corruption:
    """One corruption of a suite; `published` is the severity of a published set that has only one."""

    recipe: Recipe
    levels: Levels = ()
    published: int | None = None

    @property
    def random(self) -> bool:
        return "rng" in inspect.signature(self.recipe).parameters

    def level(self, severity: int | None) -> Level:
        """The parameters at a severity; without one, those of the published set."""
        severity = self.published if severity is None else severity
        return () if severity is None else self.levels[severity - 1]


@dataclass(frozen=True)
class Suite:
    """A benchmark: its corruptions by name, and whether grey levels are rounded or truncated."""

    corruptions: Mapping[str, Corruption]
    rounds: bool


_COMMON: dict[str, Recipe] = {
    "gaussian_noise": noise.gaussian_noise,
    "shot_noise": noise.shot_noise,
    "impulse_noise": noise.impulse_noise,
    "defocus_blur": blur.defocus_blur,
    "glass_blur": blur.glass_blur,
    "motion_blur": blur.motion_blur,
    "zoom_blur": blur.zoom_blur,
    "snow": weather.snow,
    "frost": frost.frost,
    "fog": weather.fog,
    "brightness": weather.brightness,
    "contrast": digital.contrast,
    "elastic_transform": digital.elastic_transform,
    "pixelate": digital.pixelate,
    "jpeg_compression": digital.jpeg_compression,
    "speckle_noise": noise.speckle_noise,
    "gaussian_blur": blur.gaussian_blur,
    "spatter": weather.spatter,
    "saturate": digital.saturate,
}
_CIFAR: dict[str, Recipe] = {"frost": partial(frost.frost, stride=5), "fog": partial(weather.fog, side=32)}
_IMAGENET: dict[str, Recipe] = {"frost": partial(frost.frost, stride=1), "fog": partial(weather.fog, side=256)}
_MNIST: dict[str, Recipe] = {
    "shot_noise": noise.shot_noise,
    "impulse_noise": noise.impulse_noise,
    "glass_blur": mnist.glass_blur,
    "motion_blur": blur.motion_blur,
    "shear": mnist.shear,
    "scale": mnist.scale,
    "rotate": mnist.rotate,
    "brightness": weather.brightness,
    "translate": mnist.translate,
    "stripe": mnist.stripe,
    "fog": partial(weather.fog, side=256),
    "spatter": weather.mud,
    "dotted_line": mnist.dotted_line,
    "zigzag": mnist.zigzag,
    "canny_edges": mnist.canny_edges,
}

PAPER = (*list(_COMMON)[:15], "gaussian_blur")
"""The sixteen that the ShiftMatch paper evaluates: the fifteen of the benchmark and Gaussian blur."""


def _suite(
    recipes: Mapping[str, Recipe], levels: Mapping[str, Levels], published: Mapping[str, int], *, rounds: bool
) -> Suite:
    return Suite(
        {name: Corruption(recipe, levels.get(name, ()), published.get(name)) for name, recipe in recipes.items()},
        rounds,
    )


SUITES: Mapping[str, Suite] = {
    "cifar10-c": _suite(_COMMON | _CIFAR, severities.CIFAR10_C, {}, rounds=False),
    "imagenet-c": _suite(_COMMON | _IMAGENET, severities.IMAGENET_C, {}, rounds=False),
    "mnist-c": _suite(_MNIST, severities.MNIST_C, severities.MNIST_C_PUBLISHED, rounds=True),
}
"""Every suite by its name, with its corruptions and their severities."""


def names(suite: str = "cifar10-c") -> tuple[str, ...]:
    """The corruptions of a suite, in the order of the published set.

    Args:
        suite: "cifar10-c", "imagenet-c" or "mnist-c".

    >>> names("mnist-c")[:3]
    ('shot_noise', 'impulse_noise', 'glass_blur')
    """
    return tuple(find_suite(suite).corruptions)


def find_suite(name: str) -> Suite:
    """The suite of that name."""
    if name not in SUITES:
        raise InputError(f"There is no suite {name!r}. Choose one of {', '.join(SUITES)}.")
    return SUITES[name]


def find(suite: str, name: str, severity: SupportsIndex | None) -> Corruption:
    """The corruption of that name, if it has that severity."""
    corruptions = find_suite(suite).corruptions
    if name not in corruptions:
        raise InputError(f"Suite {suite} has no corruption {name!r}. Choose one of {', '.join(corruptions)}.")
    corruption = corruptions[name]
    count = len(corruption.levels)
    if count == 0 and severity is not None:
        raise InputError(f"{name} of {suite} comes in one strength only, got severity={severity}. Leave severity out.")
    if severity is None and count and corruption.published is None:
        raise InputError(f"{name} of {suite} needs a severity: pass severity=1 to severity={count}.")
    if severity is not None and severity not in range(1, count + 1):
        raise InputError(f"{name} of {suite} has the severities 1 to {count}, got severity={severity!r}.")
    return corruption


def corrupt(
    images: Batch,
    name: str,
    *,
    severity: SupportsIndex | None = None,
    suite: str = "cifar10-c",
    seed: SupportsIndex = 0,
    frost: str | PathLike[str] | None = None,
) -> Batch:
    """Corrupt images as the benchmark `suite` does, at a severity from 1 to 5.

    What becomes of an image depends on its pixels, the corruption and the seed alone, never on the rest of its batch.

    Args:
        images: uint8, of any size from 16 x 16, with 1 or 3 channels: a tensor (batch, channels, rows, columns) on any
            device, or a NumPy array with its channels first or last. The result is of the same kind and shape.
        name: of the corruption; `shiftmatch.corruptions.names` lists them.
        severity: from 1 to 5. Without one, corruptions of "mnist-c" have their published strength; the other suites
            need it.
        suite: "cifar10-c", "imagenet-c" or "mnist-c".
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
        corruption = replace(corruption, recipe=partial(corruption.recipe, folder=Path(frost) if frost else None))
    level = corruption.published if severity is None else int(severity)
    key = (int(seed), suite, name, level)  # the generators come from its text, in which NumPy's integers differ
    pixels, channels_last = _to_pixels(images)
    rounds = find_suite(suite).rounds
    chunks = pixels.split(max(1, CHUNK_VALUES // pixels[0].numel())) if len(pixels) else ()
    done = [_to_uint8(_apply(corruption, chunk, level, key), rounds) for chunk in chunks]
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
