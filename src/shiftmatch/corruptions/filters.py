"""Correlations written as sums of shifted images.

Sums of whole shifted batches are added in a fixed order, so an image gets the same bits in any batch, which
convolution routines that choose an algorithm by the size of the batch do not promise.
"""

import math
from itertools import groupby
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from shiftmatch.corruptions.levels import cut_levels
from shiftmatch.corruptions.parameters import Number

Border = Literal["edge", "mirror", "reflect"]
"""How an image goes on beyond its border: aaa|abcd|ddd, dcb|abcd|cba or cba|abcd|dcb."""

Maps = Float[Tensor, "b *c h w"]
"""Images, or single maps without a channel axis."""


def fold(index: Int[Tensor, "*n"], size: int, border: Border) -> Int[Tensor, "*n"]:
    """The pixel inside the image that stands for pixel `index`, which may lie outside.

    >>> fold(torch.arange(-3, 6), 4, "mirror").tolist()
    [3, 2, 1, 0, 1, 2, 3, 2, 1]
    >>> fold(torch.arange(-3, 6), 4, "reflect").tolist()
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
    return x.index_select(dim, fold(index, size, border))


def correlate_axis(x: Maps, weights: Float[Tensor, "k"], dim: int, border: Border) -> Maps:
    """Σ_k weights[k] · x shifted by k − K//2 along one axis.

    >>> correlate_axis(torch.tensor([[[1.0, 2.0, 4.0]]]), torch.tensor([1.0, 0.0, 1.0]), -1, "edge").tolist()
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


def smooth(
    x: Maps, sigma: Number, *, truncate: Number = 4.0, border: Border = "edge", dims: tuple[int, ...] = (-2, -1)
) -> Maps:
    """Blur with a Gaussian of width sigma pixels, cut off at truncate·sigma.

    >>> smooth(torch.eye(3)[None], 0.5)[0, 1].tolist()[0] < 0.2
    True
    """
    radius = int(truncate * sigma + 0.5)
    if radius == 0:
        return x
    for dim in dims:
        x = correlate_axis(x, gaussian_weights(sigma, radius), dim, border)
    return x


def streak(x: Maps, degrees: Float[Tensor, "b"], radius: Number, sigma: Number) -> Maps:
    """Motion blur of every image along its own direction, as ImageMagick does it.

    A one-sided Gaussian, exp(−i²/2σ²) for i = 0 … 2·radius, weighs the pixels found by going i steps in the given
    direction and rounding to the grid. The result is cut off to 8 bits, as in the reference.
    """
    order = degrees.argsort(stable=True)
    length = 2 * math.ceil(radius) + 1
    weights = gaussian_weights(sigma, length - 1)[length - 1 :]
    rows, cols = _steps(degrees[order].cpu().double(), length)
    streaked = _sum_of_shifts(x[order], rows, cols, (weights / weights.sum()).tolist())
    return cut_levels(streaked)[order.argsort()]


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
