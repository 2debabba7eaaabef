"""Names for the shapes that recur: one letter per axis, the same letter everywhere.

b images in a batch, c channels, h rows, w columns, k classes.
"""

from typing import TypeAlias

from jaxtyping import Float, UInt8
from torch import SymInt, Tensor

Features = Float[Tensor, "b c *spatial"]
"""Activations at a site: channels first, any number of spatial axes (none for dense layers)."""

Images = Float[Tensor, "b c h w"]
"""Images as a network takes them."""

Pixels = UInt8[Tensor, "b c h w"]
"""Images as they are stored: 0 to 255."""

Resized = Float[Tensor, "b d i j"]
"""Images after a layer that may change the number of channels, rows and columns."""

Size: TypeAlias = int | SymInt
"""A number of images; in a graph that is being traced it may not be known yet."""

Count: TypeAlias = int | SymInt | Tensor
"""The same where it may be computed, such as that of the images which a memory counts for."""
