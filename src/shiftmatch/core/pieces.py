"""Features in pieces that fit the processor's caches: reading memory, not arithmetic, is what matching costs."""

from collections.abc import Sequence
from math import prod

import numpy as np
import torch
from torch import Tensor

from shiftmatch.core.covariance import CHANNEL, View
from shiftmatch.shapes import Features

PIECE_BYTES = 1 << 20
"""What one product of matrices takes: it stays in the cache of one core."""

GROUP_BYTES = 8 << 20
"""The channels that are handled together, from first to last: they stay in the cache that cores share."""

LINE_BYTES = 64
"""What a processor reads at once."""


def channel_groups(x: Features, views: Sequence[View]) -> list[slice]:
    """Channels to be handled together; all of them where a view mixes channels, or where there is no cache to mind.

    >>> from shiftmatch.core.covariance import Dense, SpatialKronecker
    >>> x = torch.zeros(1024, 8, 32, 32)
    >>> len(channel_groups(x, SpatialKronecker().views(4))), channel_groups(x, Dense().views(4))
    (4, [slice(None, None, None)])
    """
    mixed = any(view.group != (CHANNEL,) for view in views)
    if mixed or x.device.type != "cpu":
        return [slice(None)]
    size = GROUP_BYTES // (working(x).itemsize * prod(x.shape) // x.shape[CHANNEL])
    size = max(size, LINE_BYTES // x.itemsize if x.stride(CHANNEL) == 1 else 1)  # channels that come together anyway
    return [slice(first, first + size) for first in range(0, x.shape[CHANNEL], size)]


def laid_out(x: Features) -> list[Tensor]:
    """Pieces of a batch, in at least single precision, laid out so that views of them need no copy.

    In memory the images come between the first and the second axis of space: then the rows of a channel lie together
    in (c, h, b·w) and its columns in (c, h·b, w).

    >>> [piece.shape[0] for piece in laid_out(torch.zeros(1000, 1, 32, 32))]
    [256, 256, 256, 232]
    """
    order = (1, 2, 0, *range(3, x.ndim)) if x.ndim > 2 else (0, 1)
    inverse = [order.index(axis) for axis in range(x.ndim)]
    size = max(1, PIECE_BYTES // (working(x).itemsize * prod(x.shape[1:]))) if x.device.type == "cpu" else len(x)
    return [piece.permute(order).to(working(x)).contiguous().permute(inverse) for piece in x.split(size)]


def empty_as(x: Features) -> Features:
    """Room for as many features, in the same order of axes."""
    if x.device.type != "cpu" or x.dtype not in (torch.float32, torch.float64):
        return torch.empty_like(x)
    # NumPy asks the system for large pages: 24 times fewer page faults, so that filling new room is 3 times faster.
    room = torch.from_numpy(np.empty(x.numel(), x.new_empty(0).numpy().dtype))
    return room.as_strided(x.shape, torch.empty_like(x, device="meta").stride())


def working(x: Features) -> torch.dtype:
    """The precision that features are handled in."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32
