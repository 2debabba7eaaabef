"""Features about their mean image: what is left of them is multiplied as it is, and means cost one image."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import torch
from torch import Tensor

from shiftmatch.core.covariance import View
from shiftmatch.core.moments import Moments, precise
from shiftmatch.core.pieces import Room, Rooms, laid_out, working
from shiftmatch.shapes import Features


@dataclass(frozen=True)
class Summary:
    """What is needed of a batch to find its moments in some views; `+` joins two batches."""

    images: tuple[int, ...]  # in each part
    means: Features  # the mean image of each part, in double precision
    within: tuple[Tensor, ...]  # for each view, the scatter of all parts about their mean images

    def __add__(self, other: "Summary") -> "Summary":
        within = (ours + theirs for ours, theirs in zip(self.within, other.within, strict=True))
        return Summary(self.images + other.images, torch.cat([self.means, other.means]), tuple(within))

    def moments(self, views: Sequence[View]) -> tuple[Moments, ...]:
        """Scatter within parts, and of the mean images between parts and pixels."""
        return tuple(self._moments(view, within) for view, within in zip(views, self.within, strict=True))

    def _moments(self, view: View, within: Tensor) -> Moments:
        weights = torch.tensor(self.images).to(self.means).reshape(-1, *[1] * (self.means.ndim - 1))
        images = sum(self.images)
        mean = view.open((self.means * weights / images).sum(0, keepdim=True)).mean(-1)
        off = self.means - _image(view, mean, self.means[:1])
        samples = view.open(self.means[:1]).shape[-1]
        return Moments(images * samples, mean, within + _gram(view.open(off * weights.sqrt())))


@dataclass(frozen=True)
class Centred:
    """A batch, or a part of one, as its mean image and the rest, in pieces. Every map of features moves both parts.

    It comes with a summary in the views that are to be measured next: a piece is measured while it is in the cache.

    >>> from shiftmatch.core.covariance import ChannelMoments
    >>> views = ChannelMoments().views(2)
    >>> batch = Centred.of(torch.tensor([[1.0], [3.0]]), Rooms(), views)
    >>> batch.rest, batch.summary.moments(views)[0].covariance.item()
    ([tensor([[-1.],
            [ 1.]])], 1.0)
    """

    summary: Summary
    rest: Sequence[Tensor]  # the pieces without the mean image, laid out in memory for products of matrices
    room: Room  # the memory of the rest
    rooms: Rooms

    @classmethod
    def of(cls, x: Features, rooms: Rooms, views: Sequence[View] = (), spent: bool = False) -> "Centred":
        """`spent` features are not needed any more: others may have their memory."""
        mean = x.detach().mean(0, keepdim=True, dtype=working(x))
        room = rooms.take()
        rest, within = _measured(laid_out(x, mean, room), views)
        if spent:
            rooms.give(Room.of_spent(x))
        return cls(Summary((len(x),), precise(mean), within), rest, room, rooms)

    def moved(self, view: View, scale: Tensor, offset: Tensor, views: Sequence[View] = ()) -> "Centred":
        """A x + b in every group of the view. This batch is at its end then."""
        before = self.summary.means
        means = _times(view, scale, before) + _image(view, offset, before[:1])
        here, room = scale.to(self.rest[0]), self.rooms.take()
        places = room.beside(self.rest)
        moved = (_times(view, here, piece, place) for piece, place in zip(self.rest, places, strict=True))
        rest, within = _measured(moved, views)
        self.close()
        return Centred(Summary(self.summary.images, means, within), rest, room, self.rooms)

    def write(self, out: Features) -> None:
        """Put the features there. This batch is at its end then."""
        mean = self.summary.means.to(self.rest[0])
        for piece, place in zip(self.rest, out.split(len(self.rest[0])), strict=True):
            torch.add(piece, mean, out=place)
        self.close()

    def in_order_of(self, x: Features) -> Features:
        """The features with the precision and the memory layout of x. This batch is at its end then."""
        out = self.rooms.take().like(x)
        self.write(out)
        return out

    def features(self) -> Features:
        return torch.cat(list(self.rest)) + self.summary.means.to(self.rest[0])

    def close(self) -> None:
        """Let others have its room."""
        self.rooms.give(self.room)


def _measured(pieces: Iterable[Tensor], views: Sequence[View]) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    """Pieces about the mean image, and their scatter in each view."""
    rest, scatters = [], []
    for piece in pieces:
        with torch.no_grad():
            scatters.append([precise(_gram(view.open(piece))) for view in views])
        rest.append(piece)
    return rest, tuple(reduce(add, scatter) for scatter in zip(*scatters, strict=True))


def _image(view: View, values: Tensor, like: Features) -> Features:
    """One image with the same values, one for each entry of the view's matrices, in all of its samples."""
    return view.close(values[..., None].expand_as(view.open(like)), like)


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
