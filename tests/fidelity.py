"""Comparing our corruptions with what the published generators make of the same images."""

from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt
from shared_data import SHARED
from torch import Tensor

from shiftmatch.corruptions import SUITES, corrupt, names

GREY_LEVELS = 1
AGREEING = 0.99
TOLERANCE = 0.05
BANDS = 8
FILES = {
    "cifar10-c": ("cifar10c_reference.npz", "clean", (1, 2, 3, 4, 5)),
    "imagenet-c": ("imagenetc_reference.npz", "clean", (1, 3, 5)),
    "mnist-c": ("mnistc_reference.npz", "identity", (None,)),
}

Array = NDArray[np.float64]
Case = tuple[str, str, int | None]


def cases(*, random: bool) -> Iterator[Case]:
    """Every suite, corruption and severity for which a reference exists."""
    for suite in FILES:
        for name in names(suite):
            if SUITES[suite].corruptions[name].random == random:
                yield from ((suite, name, severity) for severity in FILES[suite][2])


@cache
def _arrays(suite: str) -> dict[str, NDArray[np.uint8]]:
    with np.load(SHARED / FILES[suite][0]) as file:
        return dict(file)


def _channels_first(images: NDArray[np.uint8]) -> Tensor:
    tensor = torch.from_numpy(images)
    return tensor[:, None] if images.ndim == 3 else tensor.permute(0, 3, 1, 2).contiguous()


def clean(suite: str) -> Tensor:
    return _channels_first(_arrays(suite)[FILES[suite][1]])


def reference(suite: str, name: str, severity: int | None) -> Tensor:
    images = _arrays(suite)[name]
    return _channels_first(images if severity is None else images[FILES[suite][2].index(severity)])


def agreement(suite: str, name: str, severity: int | None) -> float:
    """Share of values that are within one grey level of the reference."""
    ours = corrupt(clean(suite), name, severity=severity, suite=suite)
    gap = ours.int() - reference(suite, name, severity).int()
    return (gap.abs() <= GREY_LEVELS).float().mean().item()


def summary(images: Tensor) -> Array:
    """Mean, variance, and power in rings of rising frequency."""
    maps = images.flatten(0, 1).double().numpy()
    size = maps.shape[-1]
    power = (np.abs(np.fft.fft2(maps - maps.mean((1, 2), keepdims=True))) ** 2).mean(0)
    radius = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.fftfreq(size)) * size
    rings = np.linspace(0.5, size / 2 + 0.5, BANDS + 1)
    spectrum = [power[(radius >= low) & (radius < high)].mean() for low, high in pairwise(rings)]
    return np.array([maps.mean(), maps.var(), *spectrum])


def deviation(suite: str, name: str, severity: int | None, seeds: range) -> tuple[Array, Array]:
    """How far the mean of our summaries lies from the reference, and how far they spread, as shares of the latter."""
    images, target = clean(suite), summary(reference(suite, name, severity))
    ours = [summary(corrupt(images, name, severity=severity, suite=suite, seed=seed)) for seed in seeds]
    ratios = np.stack(ours) / target
    return np.abs(ratios.mean(0) - 1), ratios.std(0, ddof=1)


def published_ice(images: slice) -> NDArray[np.float64]:
    """The pieces of ice (NCHW, 0 to 255) that the published generator laid over those images at severities 3 to 5.

    Frost is keep·x + weight·ice, rounded down. Where it is white the ice is only known to be no darker than that
    would need: such pixels take the nearest known value, if that is lighter.
    """
    x, pieces = clean("cifar10-c")[images].double().numpy(), []
    for severity in (3, 4, 5):
        keep, weight = SUITES["cifar10-c"].corruptions["frost"].level(severity)
        frosted = reference("cifar10-c", "frost", severity)[images].double().numpy()
        ice, white = (frosted + 0.5 - keep * x) / weight, frosted == 255
        for piece, unknown in zip(ice.reshape(-1, 32, 32), white.reshape(-1, 32, 32), strict=True):
            nearest = distance_transform_edt(unknown, return_distances=False, return_indices=True)
            np.maximum(piece, piece[tuple(nearest)], out=piece)
        pieces.append(ice.clip(0, 255))
    return np.concatenate(pieces)
