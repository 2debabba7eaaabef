"""What is particular to MNIST-C: affine maps, glass blur by swapping, stripes, lines over digits and edges."""

import math
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from shiftmatch.corruptions.noise import Generators
from shiftmatch.corruptions.ops import (
    Grid,
    Map,
    Mask,
    gaussian_filter,
    hysteresis,
    neighbour,
    pixel_grid,
    sample,
    sobel,
    truncate_levels,
)
from shiftmatch.corruptions.severities import Number
from shiftmatch.shapes import Images

CANNY = {"sigma": 1.0, "low": 0.1, "high": 0.2}
HALF_WIDTH = 2.3
"""Distance from a line at which its logarithmic profile ends."""
MARGIN = 2
TOOTH = 2
"""Half the length, and the height, of a tooth of the zigzag."""
DRIFT = 5

Rows = Float[Tensor, "#b h 1"]
Cols = Float[Tensor, "1 w"]
Lines = Float[Tensor, "b h w"]


def shear(x: Images, rng: Generators, angle: Number) -> Images:
    """Shear by an angle in radians, to a random side."""
    tangent = rng.signs() * math.tan(angle)
    one, zero = torch.ones_like(tangent), torch.zeros_like(tangent)
    return _affine(x, torch.stack([one, -tangent, zero, one], -1).reshape(-1, 2, 2))


def rotate(x: Images, rng: Generators, angle: Number) -> Images:
    """Rotate by an angle in radians, to a random side."""
    sine = rng.signs() * math.sin(angle)
    cosine = torch.full_like(sine, math.cos(angle))
    return _affine(x, torch.stack([cosine, -sine, sine, cosine], -1).reshape(-1, 2, 2))


def scale(x: Images, factor: Number) -> Images:
    """Shrink about the centre."""
    return _affine(x, torch.eye(2, device=x.device).expand(len(x), 2, 2) / factor)


def translate(x: Images, rng: Generators, pixels: Number) -> Images:
    """Move by so many pixels along each axis, each to a random side."""
    right, down = (pixels * rng.signs(2))[..., None, None].unbind(1)
    size = (len(x), *x.shape[-2:])
    rows, cols = pixel_grid(x)
    return _sample_on_black(x, (rows + down).expand(size), (cols + right).expand(size))


def _affine(x: Images, matrix: Float[Tensor, "b 2 2"]) -> Images:
    """Take the pixel at (column, row) from matrix·(column, row), both counted from the centre."""
    height, width = x.shape[-2:]
    rows, cols = pixel_grid(x)
    middle_row, middle_col = (height - 1) / 2, (width - 1) / 2
    entries = matrix[..., None, None]
    from_cols = entries[:, 0, 0] * (cols - middle_col) + entries[:, 0, 1] * (rows - middle_row)
    from_rows = entries[:, 1, 0] * (cols - middle_col) + entries[:, 1, 1] * (rows - middle_row)
    return _sample_on_black(x, from_rows + middle_row, from_cols + middle_col)


def _sample_on_black(x: Images, rows: Grid, cols: Grid) -> Images:
    """Bilinear interpolation with black beyond the border."""
    (height, width), framed = x.shape[-2:], torch.nn.functional.pad(x, (1, 1, 1, 1))
    return sample(framed, (rows + 1).clamp(0, height + 1), (cols + 1).clamp(0, width + 1), "edge")


def glass_blur(x: Images, rng: Generators, sigma: Number, max_shift: int, rounds: int) -> Images:
    """Blur down the columns, swap every other pixel with a random near one, blur again.

    The generator takes the columns of a grey image for channels, so it blurs along one axis only.
    """
    x = truncate_levels(gaussian_filter(x, sigma, dims=(-2,)))
    for _ in range(rounds):
        shifts = rng.integers(-max_shift, max_shift, 2, *x.shape[-2:]) * rng.integers(0, 2, 1, *x.shape[-2:])
        x = _swap_neighbours(x, shifts, max_shift)
    return gaussian_filter(x, sigma, dims=(-2,))


def _swap_neighbours(x: Images, shifts: Tensor, max_shift: int) -> Images:
    height, width = x.shape[-2:]
    flat, images = x.flatten(2).movedim(2, 0).clone(), torch.arange(len(x), device=x.device)
    offsets = (shifts[:, 0] * width + shifts[:, 1]).flatten(1).T
    for row in range(height - max_shift, max_shift, -1):
        for col in range(width - max_shift, max_shift, -1):
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


def dotted_line(x: Images, rng: Generators) -> Images:
    """A line from the left to the right border between random rows, of which every other pair of columns shows."""
    height, width = x.shape[-2:]
    rows, cols = pixel_grid(x)
    first, last = rng.integers(0, height - 1, 2).to(x)[:, :, None, None].unbind(1)
    line = segment(rows - first, cols, 0, width - 1, (last - first) / (width - 1))
    return x + (line * (cols // 2 % 2))[:, None]


def zigzag(x: Images, rng: Generators) -> Images:
    """A zigzag from the left to the right margin, along a line that falls or rises by a few rows."""
    rows, cols = pixel_grid(x)
    start, drifts = rng.integers(0, x.shape[-2] - 1).to(x), rng.integers(-DRIFT, DRIFT)
    below_start = rows - start[:, None, None]
    lines = torch.zeros_like(below_start.expand(-1, -1, x.shape[-1]))
    for drift in set(drifts.tolist()):
        chosen = drifts == drift
        lines[chosen] = _teeth(below_start[chosen], cols, drift)
    return x + lines[:, None]


def segment(rows: Rows, cols: Cols, first: Number, last: Number, slope: Tensor | Number) -> Lines:
    """A bright line from row 0 in column `first` to column `last`: clip(log(1 − d/2.3) + 1), d the distance in rows."""
    distance = (rows - slope * (cols - first)).abs()
    profile = (torch.log((1 - distance / HALF_WIDTH).clamp_min(1 / math.e)) + 1).clamp_max(1)
    return profile * ((cols >= math.floor(first)) & (cols < math.ceil(last)))


def _teeth(rows: Rows, cols: Cols, drift: int) -> Lines:
    span = cols.shape[-1] - 1 - 2 * MARGIN
    line = torch.zeros_like(rows + cols)
    for (first, top), (last, bottom) in pairwise(_corners(span, drift)):
        slope = (bottom - top) / (last - first)
        line += segment(rows - top, cols - MARGIN, first, last, slope)
    return line.clamp_max(1)


def _corners(span: int, drift: int) -> list[tuple[float, float]]:
    """The corners (column, row) of a level zigzag, turned about its start until its end lies `drift` rows lower."""
    length, angle = math.hypot(span, drift), math.atan2(drift, span)
    count = int((length - TOOTH) // (2 * TOOTH)) + 1
    level = [(0.0, 0.0), *(((2 * i + 1) * TOOTH, (-1) ** i * TOOTH) for i in range(count)), (length, 0.0)]
    sine, cosine = math.sin(angle), math.cos(angle)
    return [(col * cosine - row * sine, col * sine + row * cosine) for col, row in level]


def canny_edges(x: Images) -> Images:
    """White edges on black, channel by channel."""
    return _canny(x.flatten(0, 1), **CANNY).to(x.dtype).reshape(x.shape)


def _canny(x: Map, sigma: Number, low: Number, high: Number) -> Mask:
    """Edges as scikit-image finds them in [0, 1]: smoothed, thinned with interpolation along the gradient."""
    smoothed = _gaussian_on_black(x, sigma)
    down, right = sobel(smoothed, "reflect")
    size = torch.hypot(down, right)
    steep = down.abs() >= right.abs()
    share = torch.minimum(down.abs(), right.abs()) / torch.maximum(down.abs(), right.abs()).clamp_min(
        torch.finfo(x.dtype).tiny
    )
    thin = size > 0
    for way in (1, -1):
        row, col = way * down.sign(), way * right.sign()
        straight = neighbour(size, torch.where(steep, row, 0), torch.where(steep, 0, col))
        thin &= straight * (1 - share) + neighbour(size, row, col) * share <= size
    thin &= _inside(x)
    return hysteresis(thin & (size >= high), thin & (size >= low))


def _gaussian_on_black(x: Map, sigma: Number) -> Map:
    """Smooth with black beyond the border, and undo the darkening that this brings."""
    edge = int(4 * sigma + 0.5)

    def dark(y: Map) -> Map:
        framed = torch.nn.functional.pad(y, (edge,) * 4)
        return gaussian_filter(framed, sigma)[:, edge:-edge, edge:-edge]

    return dark(x) / dark(torch.ones_like(x))


def _inside(x: Map) -> Mask:
    mask = torch.zeros_like(x, dtype=torch.bool)
    mask[:, 1:-1, 1:-1] = True
    return mask
