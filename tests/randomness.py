"""Random tensors for tests: float64, from a seed."""

import torch
from torch import Tensor


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def random_spd(*shape: int, seed: int = 0) -> Tensor:
    """Well-conditioned symmetric positive definite matrices; the last number is their side."""
    *group, side = shape
    factor = randn(*group, side, 3 * side, seed=seed)
    matrix = factor @ factor.mT / (3 * side)
    return (matrix + matrix.mT) / 2


def maps(images: int, *shape: int, seed: int = 0, scale: float = 1.0, shift: float = 0.0) -> Tensor:
    """Feature maps whose neighbours are correlated, each channel in its own way."""
    x = randn(images, *shape, seed=seed)
    for axis in range(2, x.ndim):
        x = x + 0.7 * x.roll(1, axis)
    channels = torch.linspace(0.5, 2.0, shape[0], dtype=x.dtype).reshape(-1, *[1] * (x.ndim - 2))
    return scale * (channels * x + channels) + shift
