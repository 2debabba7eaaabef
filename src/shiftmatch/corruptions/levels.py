"""Whole grey levels: the generators store images in 8 bits, between steps too, and cut off what is left over."""

from jaxtyping import Float
from torch import Tensor

GUARD = 1e-3
"""Added before levels are cut off, so that a whole number short of itself by rounding errors stays what it is."""


def cut_levels(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Bring values in [0, 1] down to the grey level k/255 below.

    >>> import torch
    >>> (255 * cut_levels(torch.tensor([0.0, 100.9 / 255, 1.0]))).tolist()
    [0.0, 100.0, 255.0]
    """
    return (x.clamp(0, 1) * 255 + GUARD).floor_().div_(255)
