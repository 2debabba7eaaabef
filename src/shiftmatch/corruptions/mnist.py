"""What is particular to MNIST-C: affine maps, glass blur by swapping, stripes and edges."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from shiftmatch.corruptions.edges import canny
from shiftmatch.corruptions.filters import smooth
from shiftmatch.corruptions.geometry import pixel_grid, sample_on_black
from shiftmatch.corruptions.levels import cut_levels
from shiftmatch.corruptions.parameters import Number
from shiftmatch.corruptions.randomness import Streams
from shiftmatch.shapes import Images

CANNY = {"sigma": 1.0, "low": 0.1, "high": 0.2}


def shear(x: Images, streams: Streams, angle: Number) -> Images:
    """Shear by an angle in radians, to a random side."""
    tangent = streams.signs() * math.tan(angle)
    one, zero = torch.ones_like(tangent), torch.zeros_like(tangent)
    return _affine(x, torch.stack([one, -tangent, zero, one], -1).reshape(-1, 2, 2))


def rotate(x: Images, streams: Streams, angle: Number) -> Images:
    """Rotate by an angle in radians, to a random side."""
    sine = streams.signs() * math.sin(angle)
    cosine = torch.full_like(sine, math.cos(angle))
    return _affine(x, torch.stack([cosine, -sine, sine, cosine], -1).reshape(-1, 2, 2))


def scale(x: Images, factor: Number) -> Images:
    """Shrink about the centre."""
    return _affine(x, torch.eye(2, device=x.device).expand(len(x), 2, 2) / factor)


def translate(x: Images, streams: Streams, pixels: Number) -> Images:
    """Move by so many pixels along each axis, each to a random side."""
    right, down = (pixels * streams.signs(2))[..., None, None].unbind(1)
    size = (len(x), *x.shape[-2:])
    rows, cols = pixel_grid(x)
    return sample_on_black(x, (rows + down).expand(size), (cols + right).expand(size))


def _affine(x: Images, matrix: Float[Tensor, "b 2 2"]) -> Images:
    """Take the pixel at (column, row) from matrix·(column, row), both counted from the centre."""
    height, width = x.shape[-2:]
    rows, cols = pixel_grid(x)
    middle_row, middle_col = (height - 1) / 2, (width - 1) / 2
    entries = matrix[..., None, None]
    from_cols = entries[:, 0, 0] * (cols - middle_col) + entries[:, 0, 1] * (rows - middle_row)
    from_rows = entries[:, 1, 0] * (cols - middle_col) + entries[:, 1, 1] * (rows - middle_row)
    return sample_on_black(x, from_rows + middle_row, from_cols + middle_col)


def glass_blur(x: Images, streams: Streams, sigma: Number, reach: int, rounds: int) -> Images:
    """Blur down the columns, swap every other pixel with a random near one, blur again.

    The generator takes the columns of a grey image for channels, so it blurs along one axis only.
    """
    x = cut_levels(smooth(x, sigma, dims=(-2,)))
    for _ in range(rounds):
        shifts = streams.integers(-reach, reach, 2, *x.shape[-2:]) * streams.integers(0, 2, 1, *x.shape[-2:])
        x = _swap_neighbours(x, shifts, reach)
    return smooth(x, sigma, dims=(-2,))


def _swap_neighbours(x: Images, shifts: Tensor, reach: int) -> Images:
    height, width = x.shape[-2:]
    flat, images = x.flatten(2).movedim(2, 0).clone(), torch.arange(len(x), device=x.device)
    offsets = (shifts[:, 0] * width + shifts[:, 1]).flatten(1).T
    for row in range(height - reach, reach, -1):
        for col in range(width - reach, reach, -1):
            here = row * width + col
            there = here + offsets[here]
            kept = flat[here].clone()
            flat[here] = flat[there, images]
            flat[there, images] = kept
    return flat.movedim(0, 2).reshape(x.shape)


def stripe(x: Images) -> Images:
    """Invert the left and the right quarter."""
    quarter = x.shape[-1] // 4
    inverted = 1 - x
    return torch.cat([inverted[..., :quarter], x[..., quarter:-quarter], inverted[..., -quarter:]], -1)


def canny_edges(x: Images) -> Images:
    """White edges on black, channel by channel."""
    return canny(x.flatten(0, 1), **CANNY).to(x.dtype).reshape(x.shape)
