"""The lines that MNIST-C draws over digits: dotted and zigzag."""

import math
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from shiftmatch.corruptions.geometry import pixel_grid
from shiftmatch.corruptions.parameters import Number
from shiftmatch.corruptions.randomness import Streams
from shiftmatch.shapes import Images

HALF_WIDTH = 2.3
"""Distance from a line at which its logarithmic profile ends."""
MARGIN = 2
TOOTH = 2
"""Half the length, and the height, of a tooth of the zigzag."""
DRIFT = 5

Rows = Float[Tensor, "#b h 1"]
Cols = Float[Tensor, "1 w"]
Lines = Float[Tensor, "b h w"]


def dotted_line(x: Images, streams: Streams) -> Images:
    """A line from the left to the right border between random rows, of which every other pair of columns shows."""
    height, width = x.shape[-2:]
    rows, cols = pixel_grid(x)
    first, last = streams.integers(0, height - 1, 2).to(x)[:, :, None, None].unbind(1)
    line = segment(rows - first, cols, 0, width - 1, (last - first) / (width - 1))
    return x + (line * (cols // 2 % 2))[:, None]


def zigzag(x: Images, streams: Streams) -> Images:
    """A zigzag from the left to the right margin, along a line that falls or rises by a few rows."""
    rows, cols = pixel_grid(x)
    start, drifts = streams.integers(0, x.shape[-2] - 1).to(x), streams.integers(-DRIFT, DRIFT)
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
