"""Blur: Gaussian, defocus, glass, motion, zoom."""

import math
from itertools import groupby

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from shiftmatch.corruptions.noise import Generators
from shiftmatch.corruptions.ops import (
    Maps,
    correlate,
    correlate1d,
    gaussian_filter,
    gaussian_weights,
    pad,
    truncate_levels,
)
from shiftmatch.corruptions.severities import Number
from shiftmatch.shapes import Images

SMALL_DISC = 8
"""Discs up to this radius lie on a grid of this radius and are softened by 3x3 pixels, larger ones by 5x5."""


def gaussian_blur(x: Images, sigma: Number) -> Images:
    """Blur with a Gaussian of sigma pixels."""
    return gaussian_filter(x, sigma)


def defocus_blur(x: Images, radius: Number, softness: Number) -> Images:
    """Blur with a disc whose rim is softened by a small Gaussian."""
    return correlate(x, disk_kernel(radius, softness), "mirror")


def disk_kernel(radius: Number, softness: Number) -> Float[Tensor, "k k"]:
    """A uniform disc, normalised to one and smoothed with a Gaussian of width `softness`.

    >>> disk_kernel(1, 0.1).count_nonzero().item() >= 5
    True
    """
    half = SMALL_DISC if radius <= SMALL_DISC else int(radius)
    grid = torch.arange(-half, half + 1, dtype=torch.float64)
    flat = (grid[:, None] ** 2 + grid**2 <= radius**2).double()
    rim = gaussian_weights(softness, 1 if radius <= SMALL_DISC else 2)
    soft = (flat / flat.sum())[None]
    for dim in (-2, -1):
        soft = correlate1d(soft, rim, dim, "mirror")
    return soft[0]


def motion_blur(x: Images, rng: Generators, radius: Number, sigma: Number) -> Images:
    """Streaks in a direction between −45 and 45 degrees."""
    return directional_blur(x, rng.uniform(-45, 45), radius, sigma)


def directional_blur(x: Maps, degrees: Float[Tensor, "b"], radius: Number, sigma: Number) -> Maps:
    """Motion blur of every image along its own direction, as ImageMagick does it.

    A one-sided Gaussian, exp(−i²/2σ²) for i = 0 … 2·radius, weighs the pixels found by going i steps in the given
    direction and rounding to the grid. The result is cut off to 8 bits, as in the reference.
    """
    order = degrees.argsort(stable=True)
    length = 2 * math.ceil(radius) + 1
    weights = gaussian_weights(sigma, length - 1)[length - 1 :]
    rows, cols = _steps(degrees[order].cpu().double(), length)
    streaked = _sum_of_shifts(x[order], rows, cols, (weights / weights.sum()).tolist())
    return truncate_levels(streaked)[order.argsort()]


def _steps(degrees: Float[Tensor, "b"], length: int) -> tuple[Int[Tensor, "b i"], Int[Tensor, "b i"]]:
    radians, i = torch.deg2rad(degrees)[:, None], torch.arange(length)
    rows, cols = (torch.ceil(i * along(radians) - 0.5).long() for along in (torch.sin, torch.cos))
    return rows, cols


def _sum_of_shifts(x: Maps, rows: Int[Tensor, "b i"], cols: Int[Tensor, "b i"], weights: list[float]) -> Maps:
    """Σ_i weights[i] · x shifted by (rows[:, i], cols[:, i]); neighbours in the batch that shift alike go together."""
    (height, width), (up, left) = x.shape[-2:], (-int(rows.min()), -int(cols.min()))
    padded = pad(pad(x, -2, up, int(rows.max()), "edge"), -1, left, int(cols.max()), "edge")
    total = torch.zeros_like(x)
    for i, weight in enumerate(weights):
        start = 0
        for (row, col), run in groupby(zip(rows[:, i].tolist(), cols[:, i].tolist(), strict=True)):
            end = start + len(list(run))
            shifted = padded[start:end, ..., up + row : up + row + height, left + col : left + col + width]
            total[start:end].add_(shifted, alpha=weight)
            start = end
    return total


def zoom_blur(x: Images, stop: Number, step: Number) -> Images:
    """The mean of the image and its centre enlarged by 1, 1 + step, … below stop."""
    factors = np.arange(1, stop, step)
    image_last = x.flatten(0, 1).movedim(0, -1).contiguous()  # moves whole rows of images at once
    total = image_last.clone()
    for factor in factors:
        total += zoom_centre(image_last, float(factor))
    return (total / (len(factors) + 1)).movedim(-1, 0).reshape(x.shape)


def zoom_centre(x: Float[Tensor, "h w *n"], factor: Number) -> Float[Tensor, "h w *n"]:
    """Enlarge the centre of images to their full size, bilinearly; the images lie along the last axes.

    The crop's first and last pixels fall on the enlarged image's first and last; what that has too much is trimmed.

    >>> zoom_centre(torch.tensor([[0.0, 1.0, 2.0, 3.0]] * 4), 2.0)[0].tolist()
    [1.0, 1.3333333730697632, 1.6666667461395264, 2.0]
    """
    for dim in (0, 1):
        size = x.shape[dim]
        crop = math.ceil(size / factor)
        large = round(crop * factor)
        steps = torch.arange(size, dtype=torch.float64) + (large - size) // 2
        x = _interpolate(x, dim, (size - crop) // 2 + steps * (crop - 1) / (large - 1))
    return x


def _interpolate(x: Float[Tensor, "h w *n"], dim: int, positions: Float[Tensor, "p"]) -> Float[Tensor, "h w *n"]:
    lower = positions.floor()
    upper = (lower + 1).clamp_max(x.shape[dim] - 1)
    weight = (positions - lower).to(x).reshape([-1] + [1] * (x.ndim - dim - 1))
    low, high = (x.index_select(dim, index.long().to(x.device)) for index in (lower, upper))
    return torch.lerp(low, high, weight)


def glass_blur(x: Images, rng: Generators, sigma: Number, max_shift: int, rounds: int) -> Images:
    """Blur, copy every pixel from a random near one, blur again.

    The published generator means to swap pixels, but on colour images its assignment overwrites: it copies.
    """
    x = truncate_levels(gaussian_filter(x, sigma))
    for _ in range(rounds):
        x = _copy_neighbours(x, rng.integers(-max_shift, max_shift, 2, *x.shape[-2:]), max_shift)
    return gaussian_filter(x, sigma)


def _copy_neighbours(x: Images, shifts: Int[Tensor, "b 2 h w"], max_shift: int) -> Images:
    """Set x[i, j] = x[i + shifts[0], j + shifts[1]] for i, j from the lower right to the upper left, one by one."""
    source = _resolve(*_sources(shifts, max_shift))
    return x.flatten(2).gather(2, source[:, None].expand(-1, x.shape[1], -1)).reshape(x.shape)


def _sources(shifts: Int[Tensor, "b 2 h w"], max_shift: int) -> tuple[Int[Tensor, "b p"], Int[Tensor, "b p"]]:
    """Every pixel's own place and the place it copies from, counted row by row; the margin keeps its pixels."""
    height, width = shifts.shape[-2:]
    rows, cols = (torch.arange(size, device=shifts.device) for size in (height, width))
    moved = ((rows > max_shift) & (rows <= height - max_shift))[:, None] & (
        (cols > max_shift) & (cols <= width - max_shift)
    )
    place = rows[:, None] * width + cols
    offset = shifts[:, 0] * width + shifts[:, 1]
    return place.flatten().expand(len(shifts), -1), torch.where(moved, place + offset, place).flatten(1)


def _resolve(place: Int[Tensor, "b p"], source: Int[Tensor, "b p"]) -> Int[Tensor, "b p"]:
    """Where the value copied to each pixel stood at first.

    A source further on has been overwritten already, so its own source counts; halving these chains until nothing
    changes replaces the walk over the pixels.
    """
    chained = torch.where(source > place, source, place)
    while True:
        further = chained.gather(1, chained)
        if torch.equal(further, chained):
            return source.gather(1, chained)
        chained = further
