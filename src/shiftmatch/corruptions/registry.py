"""Which corruptions there are: suite -> name -> recipe and levels."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from shiftmatch.corruptions import blur, digital, frost, mnist, noise, severities, weather
from shiftmatch.corruptions.severities import Level, Levels
from shiftmatch.errors import InputError
from shiftmatch.shapes import Images

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


def names(suite: str = "cifar10-c") -> tuple[str, ...]:
    """The corruptions of a suite, in the order of the published set.

    >>> names("mnist-c")[:3]
    ('shot_noise', 'impulse_noise', 'glass_blur')
    """
    return tuple(find_suite(suite).corruptions)


def find_suite(name: str) -> Suite:
    """The suite of that name."""
    if name not in SUITES:
        raise InputError(f"There is no suite {name!r}. Choose one of {', '.join(SUITES)}.")
    return SUITES[name]


def find(suite: str, name: str, severity: int | None) -> Corruption:
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
