"""Weather: snow, fog, frost, brightness."""

from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from shiftmatch.corruptions.colour import add_value, luminance
from shiftmatch.corruptions.filters import streak
from shiftmatch.corruptions.frost import plates
from shiftmatch.corruptions.geometry import zoom_centre
from shiftmatch.corruptions.levels import cut_levels
from shiftmatch.corruptions.parameters import Number
from shiftmatch.corruptions.randomness import Streams
from shiftmatch.shapes import Images


def brightness(x: Images, amount: Number) -> Images:
    """Add to the value (V of HSV)."""
    return add_value(x, amount)


def snow(  # noqa: PLR0917 (the columns of the published table)
    x: Images,
    streams: Streams,
    loc: Number,
    scale: Number,
    zoom: Number,
    floor: Number,
    radius: Number,
    sigma: Number,
    keep: Number,
) -> Images:
    """Whiten the image, then add streaks of bright noise and the same streaks turned by 180 degrees."""
    flakes = streams.normal(*x.shape[-2:], loc=loc, scale=scale)
    flakes = zoom_centre(flakes.movedim(0, -1), zoom).movedim(-1, 0)
    flakes = cut_levels(torch.where(flakes < floor, 0, flakes))
    layer = streak(flakes, streams.uniform(-135, -45), radius, sigma)[:, None]
    white = torch.maximum(x, 1.5 * luminance(x) + 0.5)
    return keep * x + (1 - keep) * white + layer + layer.flip(-2, -1)


def fog(x: Images, streams: Streams, strength: Number, decay: Number, *, side: int) -> Images:
    """Add a cloud and scale back: (x + s·plasma)·m / (m + s), with m the largest value of the image.

    `side` is the least side of the cloud's map; larger images take the next power of two.
    """
    height, width = x.shape[-2:]
    side = max(side, 1 << (max(height, width) - 1).bit_length())
    cloud = plasma(streams.uniform(-1, 1, side, side), decay)[:, None, :height, :width]
    largest = x.amax((1, 2, 3), keepdim=True)
    return (x + strength * cloud) * (largest / (largest + strength))


def plasma(noise: Float[Tensor, "b m m"], decay: Number) -> Float[Tensor, "b m m"]:
    """A plasma fractal on a torus, from 0 to 1: midpoints are means of four neighbours plus noise that decays.

    >>> plasma(torch.rand(1, 4, 4) * 2 - 1, 2.0).max().item()
    1.0
    """
    heights, step, wobble = torch.zeros_like(noise), noise.shape[-1], 100.0
    while step >= 2:
        even, odd = slice(0, None, step), slice(step // 2, None, step)
        corners, centres = heights[:, even, even], heights[:, odd, odd]
        squares = corners + corners.roll(-1, 1)
        centres.copy_((squares + squares.roll(-1, 2)) / 4 + wobble**2 * noise[:, odd, odd])
        for axis, rows, cols in ((1, even, odd), (2, odd, even)):
            around = centres + centres.roll(1, axis) + corners + corners.roll(-1, 3 - axis)
            heights[:, rows, cols] = around / 4 + wobble**2 * noise[:, rows, cols]
        step, wobble = step // 2, wobble / decay
    low, high = heights.amin((1, 2), keepdim=True), heights.amax((1, 2), keepdim=True)
    return (heights - low) / (high - low)


def frost(
    x: Images, streams: Streams, keep: Number, weight: Number, *, stride: int, folder: Path | None = None
) -> Images:
    """keep·x + weight·(a random piece of a random photograph of frost), of which every stride-th pixel is taken."""
    height, width = x.shape[-2:]
    pictures = plates(folder, stride, height, width)
    which = streams.integers(0, len(pictures)).tolist()
    corner = streams.uniform(0, 1, 2).tolist()
    pieces = [_piece(pictures[i], down, right, height, width) for i, (down, right) in zip(which, corner, strict=True)]
    ice = torch.stack(pieces).to(x)
    return keep * x + weight * (ice if x.shape[1] == 3 else luminance(ice))


def _piece(
    picture: Float[Tensor, "3 m n"], down: Number, right: Number, height: int, width: int
) -> Float[Tensor, "3 h w"]:
    top, left = int(down * (picture.shape[1] - height)), int(right * (picture.shape[2] - width))
    return picture[:, top : top + height, left : left + width]
