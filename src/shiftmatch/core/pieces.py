"""Features in pieces that fit the processor's caches: reading memory, not arithmetic, is what matching costs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, prod

import numpy as np
import torch
from torch import Tensor

from shiftmatch.core.covariance import CHANNEL, View
from shiftmatch.shapes import Features

PIECE_BYTES = 4 << 20
"""What one product of matrices takes: it stays in the caches of the cores."""

GROUP_BYTES = 16 << 20
"""The channels that are handled together, from first to last: they stay in the cache that cores share."""

LINE_BYTES = 64
"""What a processor reads at once."""


def channel_groups(x: Features, views: Sequence[View]) -> list[slice]:
    """Channels to be handled together; all of them where a view mixes channels, or where there is no cache to mind.

    >>> from shiftmatch.core.covariance import Dense, SpatialKronecker
    >>> x = torch.zeros(1024, 8, 32, 32)
    >>> len(channel_groups(x, SpatialKronecker().views(4))), channel_groups(x, Dense().views(4))
    (2, [slice(None, None, None)])
    """
    mixed = any(view.group != (CHANNEL,) for view in views)
    if mixed or x.device.type != "cpu":
        return [slice(None)]
    size = GROUP_BYTES // (working(x).itemsize * prod(x.shape) // x.shape[CHANNEL])
    size = max(size, LINE_BYTES // x.itemsize if x.stride(CHANNEL) == 1 else 1)  # channels that come together anyway
    return [slice(first, first + size) for first in range(0, x.shape[CHANNEL], size)]


class Room:
    """Memory for pieces of a batch, laid out so that views of them need no copy. It can be used again and again.

    In memory the images come between the first and the second axis of space: then the rows of a channel lie together
    in (c, h, b·w) and its columns in (c, h·b, w).

    >>> [piece.shape[0] for piece in Room().pieces(torch.zeros(1000, 2, 32, 32))]
    [500, 500]
    """

    def __init__(self) -> None:
        self._block = np.empty(0)

    def pieces(self, x: Features) -> list[Tensor]:
        """Room for the pieces of this batch, in at least single precision; what was there before is lost."""
        order = (1, 2, 0, *range(3, x.ndim)) if x.ndim > 2 else (0, 1)
        inverse = [order.index(axis) for axis in range(x.ndim)]
        parts = x.split(_images_per_piece(x))
        blocks = self._blocks([part.numel() for part in parts], working(x), x.device)
        shapes = ([part.shape[axis] for axis in order] for part in parts)
        return [block.view(shape).permute(inverse) for block, shape in zip(blocks, shapes, strict=True)]

    def laid_out(self, x: Features) -> list[Tensor]:
        """Copies of the pieces."""
        return [room.copy_(piece) for room, piece in zip(self.pieces(x), x.split(_images_per_piece(x)), strict=True)]

    def _blocks(self, sizes: Sequence[int], dtype: torch.dtype, device: torch.device) -> list[Tensor]:
        if device.type != "cpu":
            return [torch.empty(size, dtype=dtype, device=device) for size in sizes]
        if self._block.size < sum(sizes) or self._block.dtype != _NUMPY[dtype]:
            self._block = np.empty(sum(sizes), _NUMPY[dtype])
        ends = np.cumsum(sizes)
        return [torch.from_numpy(self._block[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


@dataclass(frozen=True)
class Rooms:
    """What moving a batch takes, to be used from group to group and from site to site."""

    rest: Room | None = field(default_factory=Room)
    spare: Room | None = field(default_factory=Room)


NO_ROOMS = Rooms(None, None)
"""New memory for everything."""


def empty_as(x: Features) -> Features:
    """Room for as many features, in the same order of axes."""
    if x.device.type != "cpu" or x.dtype not in _NUMPY:
        return torch.empty_like(x)
    # NumPy asks the system for large pages: 24 times fewer page faults, so that filling new room is 3 times faster.
    room = torch.from_numpy(np.empty(x.numel(), _NUMPY[x.dtype]))
    return room.as_strided(x.shape, torch.empty_like(x, device="meta").stride())


_NUMPY = {torch.float32: np.float32, torch.float64: np.float64}


def _images_per_piece(x: Features) -> int:
    pieces = ceil(working(x).itemsize * x.numel() / PIECE_BYTES) if x.device.type == "cpu" else 1
    return max(1, ceil(len(x) / max(1, pieces)))


def working(x: Features) -> torch.dtype:
    """The precision that features are handled in."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32
