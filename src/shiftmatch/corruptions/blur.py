"""Blur: Gaussian, defocus, glass, motion, zoom."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from shiftmatch.corruptions.filters import correlate, correlate_axis, gaussian_weights, smooth, streak
from shiftmatch.corruptions.geometry import zoom_centre
from shiftmatch.corruptions.levels import cut_levels
from shiftmatch.corruptions.parameters import Number
from shiftmatch.corruptions.randomness import Streams
from shiftmatch.shapes import Images

SMALL_DISC = 8
"""Discs up to this radius lie on a grid of this radius and are softened by 3x3 pixels, larger ones by 5x5."""


def gaussian_blur(x: Images, sigma: Number) -> Images:
    """Blur with a Gaussian of sigma pixels."""
    return smooth(x, sigma)


def defocus_blur(x: Images, radius: Number, softness: Number) -> Images:
    """Blur with a disc whose rim is softened by a small Gaussian."""
    return correlate(x, disc(radius, softness), "mirror")


def disc(radius: Number, softness: Number) -> Float[Tensor, "k k"]:
    """A uniform disc, normalised to one and smoothed with a Gaussian of width `softness`.

    >>> disc(1, 0.1).count_nonzero().item() >= 5
    True
    """
    half = SMALL_DISC if radius <= SMALL_DISC else int(radius)
    grid = torch.arange(-half, half + 1, dtype=torch.float64)
    flat = (grid[:, None] ** 2 + grid**2 <= radius**2).double()
    rim = gaussian_weights(softness, 1 if radius <= SMALL_DISC else 2)
    soft = (flat / flat.sum())[None]
    for dim in (-2, -1):
        soft = correlate_axis(soft, rim, dim, "mirror")
    return soft[0]


def motion_blur(x: Images, streams: Streams, radius: Number, sigma: Number) -> Images:
    """Streaks in a direction between −45 and 45 degrees."""
    return streak(x, streams.uniform(-45, 45), radius, sigma)


def zoom_blur(x: Images, stop: Number, step: Number) -> Images:
    """The mean of the image and its centre enlarged by 1, 1 + step, … below stop."""
    factors = np.arange(1, stop, step)
    image_last = x.flatten(0, 1).movedim(0, -1).contiguous()  # moves whole rows of images at once
    total = image_last.clone()
    for factor in factors:
        total += zoom_centre(image_last, float(factor))
    return (total / (len(factors) + 1)).movedim(-1, 0).reshape(x.shape)


def glass_blur(x: Images, streams: Streams, sigma: Number, reach: int, rounds: int) -> Images:
    """Blur, copy every pixel from a random near one, blur again.

    The published generator means to swap pixels, but on colour images its assignment overwrites: it copies.
    """
    x = cut_levels(smooth(x, sigma))
    for _ in range(rounds):
        x = _copy_neighbours(x, streams.integers(-reach, reach, 2, *x.shape[-2:]), reach)
    return smooth(x, sigma)


def _copy_neighbours(x: Images, shifts: Int[Tensor, "b 2 h w"], reach: int) -> Images:
    """Set x[i, j] = x[i + shifts[0], j + shifts[1]] for i, j from the lower right to the upper left, one by one."""
    source = _resolve(*_sources(shifts, reach))
    return x.flatten(2).gather(2, source[:, None].expand(-1, x.shape[1], -1)).reshape(x.shape)


def _sources(shifts: Int[Tensor, "b 2 h w"], reach: int) -> tuple[Int[Tensor, "b p"], Int[Tensor, "b p"]]:
    """Every pixel's own place and the place it copies from, counted row by row; the margin keeps its pixels."""
    height, width = shifts.shape[-2:]
    rows, cols = (torch.arange(size, device=shifts.device) for size in (height, width))
    moved = ((rows > reach) & (rows <= height - reach))[:, None] & ((cols > reach) & (cols <= width - reach))
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
