"""Features in pieces that fit the processor's caches: reading memory, not arithmetic, is what matching costs."""

from collections.abc import Iterator, Sequence
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
    """Memory that can be used again and again; what was there before is lost."""

    def __init__(self, memory: torch.UntypedStorage | None = None) -> None:
        self._memory = memory

    @classmethod
    def of_spent(cls, x: Tensor) -> "Room":
        """The memory of features that nobody needs any more, if it holds nothing else."""
        memory = x.untyped_storage()
        return cls(memory if x.device.type == "cpu" and memory.nbytes() == x.nbytes else None)

    def of(self, sizes: Sequence[int], dtype: torch.dtype, device: torch.device) -> list[Tensor]:
        """Flat tensors of these sizes, one after the other."""
        if device.type != "cpu":
            return [torch.empty(size, dtype=dtype, device=device) for size in sizes]
        total = sum(sizes) * dtype.itemsize
        if self._memory is None or self._memory.nbytes() < total:
            self._memory = _new_memory(total)
        block = torch.empty(0, dtype=dtype).set_(self._memory, 0, (sum(sizes),), (1,))
        return list(block.split(list(sizes)))

    def like(self, x: Features) -> Features:
        """A place for as many features, in the same order of axes; whoever keeps them keeps no more than that."""
        if self._memory is not None and self._memory.nbytes() != x.nbytes:
            self._memory = None
        (block,) = self.of([x.numel()], x.dtype, x.device)
        return block.as_strided(x.shape, torch.empty_like(x, device="meta").stride())

    def beside(self, pieces: Sequence[Tensor]) -> list[Tensor | None]:
        """Places like these pieces; none where gradients need new memory."""
        if any(torch.is_grad_enabled() and piece.requires_grad for piece in pieces):
            return [None] * len(pieces)
        blocks = self.of([piece.numel() for piece in pieces], pieces[0].dtype, pieces[0].device)
        return [block.as_strided(piece.shape, piece.stride()) for block, piece in zip(blocks, pieces, strict=True)]


class Rooms:
    """Rooms that go from batch to batch, from channel to channel and from site to site."""

    def __init__(self) -> None:
        self._free: list[Room] = []

    def take(self) -> Room:
        return self._free.pop() if self._free else Room()

    def give(self, room: Room) -> None:
        self._free.append(room)


def laid_out(x: Features, mean: Tensor, room: Room) -> Iterator[Tensor]:
    """A batch without its mean image, in pieces, in at least single precision, so that views of them need no copy.

    In memory the images come between the first and the second axis of space: then the rows of a channel lie together
    in (c, h, b·w) and its columns in (c, h·b, w). Gradients get memory of their own.

    >>> [piece.shape[0] for piece in laid_out(torch.zeros(1000, 2, 32, 32), torch.zeros(2, 32, 32), Room())]
    [500, 500]
    """
    order = (1, 2, 0, *range(3, x.ndim)) if x.ndim > 2 else (0, 1)
    inverse = [order.index(axis) for axis in range(x.ndim)]
    pieces = x.split(_images_per_piece(x))
    if torch.is_grad_enabled() and x.requires_grad:
        yield from ((piece - mean).permute(order).contiguous().permute(inverse) for piece in pieces)
        return
    blocks = room.of([piece.numel() for piece in pieces], working(x), x.device)
    for block, piece in zip(blocks, pieces, strict=True):
        yield torch.sub(piece, mean, out=block.view([piece.shape[axis] for axis in order]).permute(inverse))


def _new_memory(size: int) -> torch.UntypedStorage:
    """So many bytes, from NumPy: it asks the system for large pages, 24 times fewer page faults where it is filled."""
    return torch.from_numpy(np.empty(size, np.uint8)).untyped_storage()


def _images_per_piece(x: Features) -> int:
    pieces = ceil(working(x).itemsize * x.numel() / PIECE_BYTES) if x.device.type == "cpu" else 1
    return max(1, ceil(len(x) / max(1, pieces)))


def working(x: Features) -> torch.dtype:
    """The precision that features are handled in."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32
