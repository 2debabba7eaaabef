"""Colour as the recipes need it; a grey image counts as one with three equal channels."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from shiftmatch.corruptions.parameters import Number
from shiftmatch.shapes import Images

LUMA = (0.299, 0.587, 0.114)
Grey = Float[Tensor, "b 1 h w"]


def luminance(x: Images) -> Grey:
    """Brightness to the eye.

    >>> luminance(torch.ones(1, 3, 2, 2))[0, 0, 0, 0].item()
    1.0
    """
    if x.shape[1] == 1:
        return x
    red, green, blue = x.unbind(1)
    return (LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue)[:, None]


def in_colour(change: Callable[[Images], Images], x: Images) -> Images:
    """Apply a change that needs three channels; a grey image comes back grey."""
    if x.shape[1] == 3:
        return change(x)
    return luminance(change(x.expand(-1, 3, -1, -1)))


def add_value(x: Images, amount: Number) -> Images:
    """Raise V of HSV, hue and saturation kept: scale the pixel so that its largest channel becomes V + amount."""
    value = x.amax(1, keepdim=True)
    target = (value + amount).clamp(0, 1)
    return torch.where(value > 0, x * (target / value.clamp_min(torch.finfo(x.dtype).tiny)), target)


def change_saturation(x: Images, factor: Number, amount: Number) -> Images:
    """Set S of HSV to factor·S + amount; grey pixels count as red, the hue of angle zero."""
    value, lowest = x.amax(1, keepdim=True), x.amin(1, keepdim=True)
    spread = value - lowest
    saturation = spread / value.clamp_min(torch.finfo(x.dtype).tiny)
    target = (factor * saturation + amount).clamp(0, 1)
    red = x.new_tensor([0.0, 1.0, 1.0])[:, None, None]
    # How far below the largest channel each channel lies, as a share of the spread.
    depth = torch.where(spread > 0, (value - x) / spread.clamp_min(torch.finfo(x.dtype).tiny), red)
    return value * (1 - target * depth)
