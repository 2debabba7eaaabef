"""Image operations that the corruptions share: filters, bilinear sampling, grey levels, edges.

Filters are sums of shifted batches, added in a fixed order, so an image gets the same bits in any batch, which
convolution routines that choose an algorithm by the size of the batch do not promise.
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from shiftmatch.corruptions.severities import Number
from shiftmatch.shapes import Images

Border = Literal["edge", "mirror", "reflect"]
"""How an image is extended beyond its border: aaa|abcd|ddd, dcb|abcd|cba or cba|abcd|dcb."""

Maps = Float[Tensor, "b *c h w"]
"""Images, or single maps without a channel axis."""
Map = Float[Tensor, "b h w"]
Mask = Bool[Tensor, "b h w"]
Grid = Float[Tensor, "b i j"]

LUMA = (0.299, 0.587, 0.114)
GUARD = 1e-3
"""Added before levels are rounded down, so that a whole number short of itself by rounding errors stays what it is."""
SOBEL = ((-1.0, -2.0, -1.0), (0.0, 0.0, 0.0), (1.0, 2.0, 1.0))


def truncate_levels(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Round values in [0, 1] down to a grey level k/255, as the generators do when they store images in 8 bits.

    >>> (255 * truncate_levels(torch.tensor([0.0, 100.9 / 255, 1.0]))).tolist()
    [0.0, 100.0, 255.0]
    """
    return (x.clamp(0, 1) * 255 + GUARD).floor_().div_(255)


def luminance(x: Images) -> Float[Tensor, "b 1 h w"]:
    """Brightness to the eye; a grey image is its own.

    >>> luminance(torch.ones(1, 3, 2, 2))[0, 0, 0, 0].item()
    1.0
    """
    if x.shape[1] == 1:
        return x
    red, green, blue = x.unbind(1)
    return (LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue)[:, None]


def border_index(index: Int[Tensor, "*n"], size: int, border: Border) -> Int[Tensor, "*n"]:
    """The pixel inside the image that stands for pixel `index`, which may lie outside.

    >>> border_index(torch.arange(-3, 6), 4, "mirror").tolist()
    [3, 2, 1, 0, 1, 2, 3, 2, 1]
    >>> border_index(torch.arange(-3, 6), 4, "reflect").tolist()
    [2, 1, 0, 0, 1, 2, 3, 3, 2]
    """
    if border == "edge" or size == 1:
        return index.clamp(0, size - 1)
    period = 2 * size - (2 if border == "mirror" else 0)
    inside = index % period
    return torch.where(inside < size, inside, 2 * size - (2 if border == "mirror" else 1) - inside)


def pad(x: Maps, dim: int, before: int, after: int, border: Border) -> Float[Tensor, "b *c i j"]:
    """Extend one axis beyond both of its ends."""
    size = x.shape[dim]
    index = torch.arange(-before, size + after, device=x.device)
    return x.index_select(dim, border_index(index, size, border))


def correlate1d(x: Maps, weights: Float[Tensor, "k"], dim: int, border: Border) -> Maps:
    """Σ_k weights[k] · x shifted by k − K//2 along one axis.

    >>> correlate1d(torch.tensor([[[1.0, 2.0, 4.0]]]), torch.tensor([1.0, 0.0, 1.0]), -1, "edge").tolist()
    [[[3.0, 5.0, 6.0]]]
    """
    size, radius = x.shape[dim], len(weights) // 2
    padded = pad(x, dim, radius, radius, border)
    total = torch.zeros_like(x)
    for k, weight in enumerate(weights.tolist()):
        total.add_(padded.narrow(dim, k, size), alpha=weight)
    return total


def correlate(x: Maps, kernel: Float[Tensor, "k l"], border: Border) -> Maps:
    """Σ_kl kernel[k, l] · x shifted by (k − K//2, l − L//2): what image libraries call filtering."""
    (up, left), (height, width) = (size // 2 for size in kernel.shape), x.shape[-2:]
    padded = pad(pad(x, -2, up, up, border), -1, left, left, border)
    total = torch.zeros_like(x)
    for row, col in kernel.nonzero().tolist():
        total.add_(padded[..., row : row + height, col : col + width], alpha=kernel[row, col].item())
    return total


def gaussian_weights(sigma: Number, radius: int) -> Float[Tensor, "k"]:
    """exp(−t²/2σ²) for t from −radius to radius, normalised to one."""
    weights = torch.exp(-0.5 * (torch.arange(-radius, radius + 1, dtype=torch.float64) / sigma) ** 2)
    return weights / weights.sum()


def gaussian_filter(
    x: Maps, sigma: Number, *, truncate: Number = 4.0, border: Border = "edge", dims: tuple[int, ...] = (-2, -1)
) -> Maps:
    """Blur with a Gaussian of width sigma pixels, cut off at truncate·sigma.

    >>> gaussian_filter(torch.eye(3)[None], 0.5)[0, 1].tolist()[0] < 0.2
    True
    """
    radius = int(truncate * sigma + 0.5)
    if radius == 0:
        return x
    for dim in dims:
        x = correlate1d(x, gaussian_weights(sigma, radius), dim, border)
    return x


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


def sobel(x: Map, border: Border) -> tuple[Map, Map]:
    """The gradient down the rows and along the columns."""
    kernel = torch.tensor(SOBEL)
    return correlate(x, kernel, border), correlate(x, kernel.T, border)


def neighbour(x: Map, row: Map, col: Map) -> Map:
    """For each pixel its neighbour at (row, col), each −1, 0 or 1; zero beyond the border."""
    height, width = x.shape[-2:]
    framed = torch.nn.functional.pad(x, (1, 1, 1, 1))
    rows = torch.arange(1, height + 1, device=x.device)[:, None] + row.long()
    cols = torch.arange(1, width + 1, device=x.device) + col.long()
    return framed.flatten(1).gather(1, (rows * (width + 2) + cols).flatten(1)).reshape(x.shape)


def hysteresis(strong: Mask, weak: Mask) -> Mask:
    """The weak edge pixels that a chain of weak neighbours, diagonals included, connects to a strong one."""
    while True:
        spread = torch.nn.functional.max_pool2d(strong[:, None].float(), 3, stride=1, padding=1)[:, 0] > 0
        grown = spread & weak
        if torch.equal(grown, strong):
            return grown
        strong = grown
