"""Moving pixels: bilinear sampling, zooming about the centre, affine maps."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from shiftmatch.corruptions.filters import Border, Maps, fold
from shiftmatch.shapes import Images

Grid = Float[Tensor, "b h w"]


def pixel_grid(x: Images) -> tuple[Float[Tensor, "h 1"], Float[Tensor, "1 w"]]:
    """The row and the column of every pixel."""
    rows, cols = (torch.arange(size, device=x.device, dtype=x.dtype) for size in x.shape[-2:])
    return rows[:, None], cols[None, :]


def sample(x: Images, rows: Grid, cols: Grid, border: Border) -> Images:
    """Bilinear interpolation of every image at its own positions.

    >>> x = torch.tensor([[[[0.0, 1.0], [2.0, 3.0]]]])
    >>> sample(x, torch.tensor([[[0.5]]]), torch.tensor([[[0.25]]]), "edge").item()
    1.25
    """
    top, left = rows.floor(), cols.floor()
    down, right = (rows - top)[:, None], (cols - left)[:, None]

    def corner(below: int, beside: int) -> Images:
        return _pick(x, top.long() + below, left.long() + beside, border)

    upper = torch.lerp(corner(0, 0), corner(0, 1), right)
    lower = torch.lerp(corner(1, 0), corner(1, 1), right)
    return torch.lerp(upper, lower, down)


def sample_on_black(x: Images, rows: Grid, cols: Grid) -> Images:
    """The same, with black beyond the border."""
    framed = torch.nn.functional.pad(x, (1, 1, 1, 1))
    return sample(framed, rows + 1, cols + 1, "edge")


def zoom_centre(x: Maps, factor: float) -> Maps:
    """Enlarge the centre of an image to its full size, bilinearly.

    The crop's first and last pixels fall on the enlarged image's first and last; what that has too much is trimmed.
    """
    for dim in (-2, -1):
        size = x.shape[dim]
        crop = math.ceil(size / factor)
        large = round(crop * factor)
        steps = torch.arange(size, dtype=torch.float64) + (large - size) // 2
        x = _interpolate(x, dim, (size - crop) // 2 + steps * (crop - 1) / (large - 1))
    return x


def _pick(x: Images, rows: Tensor, cols: Tensor, border: Border) -> Images:
    (channels, height, width), shape = x.shape[1:], rows.shape
    flat = fold(rows, height, border) * width + fold(cols, width, border)
    index = flat.flatten(1)[:, None].expand(-1, channels, -1)
    return x.flatten(2).gather(2, index).reshape(shape[0], channels, *shape[1:])


def _interpolate(x: Maps, dim: int, positions: Float[Tensor, "n"]) -> Maps:
    lower = positions.floor()
    upper = (lower + 1).clamp_max(x.shape[dim] - 1)
    weight = (positions - lower).to(x).reshape([-1] + [1] * (-dim - 1))
    low, high = (x.index_select(dim, index.long().to(x.device)) for index in (lower, upper))
    return torch.lerp(low, high, weight)
