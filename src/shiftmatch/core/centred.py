"""Features about an image near their mean: what is left of them is multiplied as it is, and means cost one image."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from shiftmatch.core.covariance import View
from shiftmatch.core.moments import Moments, precise
from shiftmatch.core.pieces import Room
from shiftmatch.shapes import Features


@dataclass(frozen=True)
class Centred:
    """A batch as x = about + rest. Every map of features moves both parts, so that no pass over the batch is for means.

    >>> from shiftmatch.core.covariance import ChannelMoments
    >>> batch = Centred.of(torch.tensor([[1.0], [3.0]]))
    >>> batch.rest, batch.moments(*ChannelMoments().views(2)).covariance.item()
    ([tensor([[-1.],
            [ 1.]])], 1.0)
    """

    about: Tensor  # one image, in double precision
    total: Tensor  # the sum of the rest over all images, in double precision
    rest: Sequence[Tensor]  # pieces, laid out in memory for products of matrices
    spare: Sequence[Tensor | None]  # where the pieces go next; new memory where there is none

    @classmethod
    def of(cls, x: Features, room: Room | None = None, spare: Room | None = None) -> "Centred":
        """Take the mean of the first piece away: it is part of the batch, so that little cancels later."""
        rest = (room or Room()).laid_out(x)
        about = rest[0].detach().mean(0, keepdim=True)
        total = torch.stack([precise(piece.sub_(about).sum(0, keepdim=True)) for piece in rest]).sum(0)
        return cls(precise(about), total, rest, spare.pieces(x) if spare else [None] * len(rest))

    @property
    def images(self) -> int:
        return sum(map(len, self.rest))

    @torch.no_grad()
    def moments(self, view: View) -> Moments:
        """Scatter within pixels, over the images, and that of the mean image between them."""
        off = self.total / self.images
        mean = Moments.of(view.open(self.about + off))
        within = sum(precise(_gram(view.open(piece))) for piece in self.rest) - self.images * _gram(view.open(off))
        return Moments(self.images * mean.count, mean.mean, within + self.images * mean.scatter)

    def moved(self, view: View, scale: Tensor, offset: Tensor) -> "Centred":
        """A x + b in every group of the view. This batch is gone then: another one may take its room."""
        about, total = (_times(view, scale, image) for image in (self.about, self.total))
        about = about + view.close(offset[..., None].expand_as(view.open(about)), about)
        here = scale.to(self.rest[0])
        rest = [_times(view, here, piece, room) for piece, room in zip(self.rest, self.spare, strict=True)]
        spare = [None if room is None else piece for piece, room in zip(self.rest, self.spare, strict=True)]
        return Centred(about, total, rest, spare)

    def write(self, out: Features) -> None:
        """Put the features there."""
        about = self.about.to(self.rest[0])
        for piece, place in zip(self.rest, out.split(len(self.rest[0])), strict=True):
            torch.add(piece, about, out=place)

    def features(self) -> Features:
        about = self.about.to(self.rest[0])
        return torch.cat([piece + about for piece in self.rest])


def _gram(samples: Tensor) -> Tensor:
    flat = samples.flatten(-2)
    return flat @ flat.mT


def _times(view: View, scale: Tensor, x: Features, room: Features | None = None) -> Features:
    """A x in every group of the view, in the memory layout that x has; in that room, where the view can write to it."""
    samples = view.open(x)
    flat = samples.flatten(-2)
    place = None if room is None else _in_same_memory(view.open(room).flatten(-2), room)
    samples_lie_together = flat.stride(-1) == 1
    if samples_lie_together:
        moved = torch.bmm(scale, flat, out=place)
    else:
        moved = torch.bmm(flat.mT, scale.mT, out=None if place is None else place.mT).mT
    return view.close(moved.unflatten(-1, samples.shape[-2:]), x)


def _in_same_memory(x: Tensor, room: Tensor) -> Tensor | None:
    return x if x.data_ptr() == room.data_ptr() else None
