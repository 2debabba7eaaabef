"""Canny edges, in the two forms that the generators use: scikit-image's and OpenCV's."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from shiftmatch.corruptions.filters import Border, correlate, smooth
from shiftmatch.corruptions.parameters import Number

Map = Float[Tensor, "b h w"]
Mask = Bool[Tensor, "b h w"]

SOBEL = ((-1.0, -2.0, -1.0), (0.0, 0.0, 0.0), (1.0, 2.0, 1.0))
TAN_22_5 = 2**0.5 - 1
"""Gradients flatter than 22.5 degrees count as horizontal, steeper than 67.5 as vertical."""


def canny(x: Map, sigma: Number, low: Number, high: Number) -> Mask:
    """Edges of an image in [0, 1] after smoothing, thinned with interpolation along the gradient."""
    smoothed = _smooth_on_black(x, sigma)
    down, right = _gradient(smoothed, "reflect")
    size = torch.hypot(down, right)
    steep = down.abs() >= right.abs()
    share = torch.minimum(down.abs(), right.abs()) / torch.maximum(down.abs(), right.abs()).clamp_min(_tiny(x))
    thin = size > 0
    for way in (1, -1):
        row, col = way * down.sign(), way * right.sign()
        straight = _neighbour(size, torch.where(steep, row, 0), torch.where(steep, 0, col))
        thin &= straight * (1 - share) + _neighbour(size, row, col) * share <= size
    thin &= _inside(x)
    return _grow(thin & (size >= high), thin & (size >= low))


def canny_integer(x: Map, low: Number, high: Number) -> Mask:
    """Edges of an image in 0 … 255: no smoothing, gradient size |gx| + |gy|, thinned in eight directions."""
    down, right = _gradient(x, "edge")
    size = down.abs() + right.abs()
    row = torch.where(down.abs() > TAN_22_5 * right.abs(), down.sign(), 0)
    col = torch.where(right.abs() > TAN_22_5 * down.abs(), right.sign(), 0)
    thin = (size > _neighbour(size, -row, -col)) & (size >= _neighbour(size, row, col))
    return _grow(thin & (size > high), thin & (size > low))


def _smooth_on_black(x: Map, sigma: Number) -> Map:
    """Smooth with black beyond the border, and undo the darkening that this brings."""
    edge = int(4 * sigma + 0.5)

    def dark(y: Map) -> Map:
        framed = torch.nn.functional.pad(y, (edge,) * 4)
        return smooth(framed, sigma)[:, edge:-edge, edge:-edge]

    return dark(x) / dark(torch.ones_like(x))


def _gradient(x: Map, border: Border) -> tuple[Map, Map]:
    kernel = torch.tensor(SOBEL)
    return correlate(x, kernel, border), correlate(x, kernel.T, border)


def _neighbour(x: Map, row: Map, col: Map) -> Map:
    """For each pixel its neighbour at (row, col), each −1, 0 or 1; zero beyond the border."""
    height, width = x.shape[-2:]
    framed = torch.nn.functional.pad(x, (1, 1, 1, 1))
    rows = torch.arange(1, height + 1, device=x.device)[:, None] + row.long()
    cols = torch.arange(1, width + 1, device=x.device) + col.long()
    return framed.flatten(1).gather(1, (rows * (width + 2) + cols).flatten(1)).reshape(x.shape)


def _inside(x: Map) -> Mask:
    mask = torch.zeros_like(x, dtype=torch.bool)
    mask[:, 1:-1, 1:-1] = True
    return mask


def _grow(seed: Mask, weak: Mask) -> Mask:
    """The weak pixels that a chain of weak neighbours, diagonals included, connects to a seed."""
    while True:
        spread = torch.nn.functional.max_pool2d(seed[:, None].float(), 3, stride=1, padding=1)[:, 0] > 0
        grown = spread & weak
        if torch.equal(grown, seed):
            return grown
        seed = grown


def _tiny(x: Map) -> float:
    return torch.finfo(x.dtype).tiny
