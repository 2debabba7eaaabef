"""Moving pixels: bilinear sampling, zooming about the centre, affine maps."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from shiftmatch.corruptions.filters import Border, pad
from shiftmatch.corruptions.parameters import Number
from shiftmatch.shapes import Images

Grid = Float[Tensor, "b i j"]


def pixel_grid(x: Images) -> tuple[Float[Tensor, "h 1"], Float[Tensor, "1 w"]]:
    """The row and the column of every pixel."""
    rows, cols = (torch.arange(size, device=x.device, dtype=x.dtype) for size in x.shape[-2:])
    return rows[:, None], cols[None, :]


def sample(x: Images, rows: Grid, cols: Grid, border: Border) -> Float[Tensor, "b c i j"]:
    """Bilinear interpolation of every image at its own positions.

    >>> x = torch.tensor([[[[0.0, 1.0], [2.0, 3.0]]]])
    >>> sample(x, torch.tensor([[[0.5]]]), torch.tensor([[[0.25]]]), "edge").item()
    1.25
    """
    top, left = rows.floor(), cols.floor()
    up, start = (max(0, -int(first.min())) for first in (top, left))
    below, end = (max(0, int(last.max()) + 2 - size) for last, size in zip((top, left), x.shape[-2:], strict=True))
    padded = pad(pad(x, -2, up, below, border), -1, start, end, border)
    width, channels = padded.shape[-1], x.shape[1]
    index = ((top.long() + up) * width + left.long() + start).flatten(1)[:, None].expand(-1, channels, -1)

    def corner(offset: int) -> Float[Tensor, "b c i j"]:
        return padded.flatten(2).gather(2, index + offset).reshape(len(x), channels, *rows.shape[1:])

    right, down = (cols - left)[:, None], (rows - top)[:, None]
    upper = torch.lerp(corner(0), corner(1), right)
    lower = torch.lerp(corner(width), corner(width + 1), right)
    return torch.lerp(upper, lower, down)


def sample_on_black(x: Images, rows: Grid, cols: Grid) -> Images:
    """The same, with black beyond the border."""
    (height, width), framed = x.shape[-2:], torch.nn.functional.pad(x, (1, 1, 1, 1))
    return sample(framed, (rows + 1).clamp(0, height + 1), (cols + 1).clamp(0, width + 1), "edge")


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
