"""The matching formula: x' = Σ_train^{1/2} Σ_test^{-1/2} (x − μ_test) + μ_train, one view after the other."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from math import prod
from operator import add
from typing import NamedTuple, TypeAlias, TypedDict

import torch
from jaxtyping import Bool
from torch import Tensor

from shiftmatch.core.centred import Centred, Summary
from shiftmatch.core.covariance import Covariance, View
from shiftmatch.core.goals import Goal, goal_of
from shiftmatch.core.linalg import RootMethod, sym_power
from shiftmatch.core.moments import Moments, blend
from shiftmatch.core.pieces import Rooms, channel_groups, empty_as
from shiftmatch.errors import InputError, NonFiniteError
from shiftmatch.shapes import Features

MOST_BYTES = 4 * 2**30
"""Covariances of one view that take more memory than this are refused rather than tried."""

DEAD = 1e-6
"""A channel whose standard deviation is below this part of its mean, or of the other side's deviation, is constant."""


Maps: TypeAlias = list[tuple[Tensor, Tensor]]
"""A and b of x' = A x + b, for one or more views."""

Together: TypeAlias = Callable[[Summary, Callable[[Sequence[Summary]], Maps]], Maps]
"""How the parts of a batch learn of each other: each hands in a summary, all get the maps that they make together."""


def alone(part: Summary, maps: Callable[[Sequence[Summary]], Maps]) -> Maps:
    """A batch of one part."""
    return maps([part])


def measure(structure: Covariance, x: Features) -> tuple[Moments, ...]:
    """The moments of one batch of features, one for each view of the structure.

    >>> from shiftmatch.core.covariance import SpatialKronecker
    >>> [moments.scatter.shape for moments in measure(SpatialKronecker(), torch.ones(2, 3, 4, 5))]
    [torch.Size([3, 4, 4]), torch.Size([3, 5, 5])]
    """
    views, rooms = structure.views(x.ndim), Rooms()
    for view in views:
        _check_size(structure, view, x)

    def of(channels: slice) -> tuple[Moments, ...]:
        batch = Centred.of(x[:, channels], rooms)
        summary = batch.summary(views)
        batch.close()
        return _moments(views, summary)

    with _full_precision(x):
        groups = [of(channels) for channels in channel_groups(x, views)]
    return tuple(Moments.cat(parts).to("cpu") for parts in zip(*groups, strict=True))


class How(TypedDict, total=False):
    """The settings of `transport`."""

    weight: float
    every: int
    roots: RootMethod
    rooms: Rooms
    in_place: bool
    together: Together


def transport(
    x: Tensor,  # Features; not said, because parts that wait for each other are checked against each other's shapes
    structure: Covariance,
    train: Sequence[Moments],
    *,
    weight: float = 0.0,
    every: int = 1,
    roots: RootMethod = "auto",
    rooms: Rooms | None = None,
    in_place: bool = False,
    together: Together = alone,
) -> Tensor:
    """Move a batch of features to the training moments, view by view.

    `weight` is the part that the training moments have in those of the batch: 0 trusts the batch alone, 1 is the
    identity. The batch is measured on one image in `every`; `roots` says how its roots are taken. Gradients flow
    through the features, not through their moments. An empty batch is returned as it is.

    `rooms` are memory from a call before, and `in_place` allows to write over the features, where no gradients need
    them. Where `x` is a part of a batch, `together` finds the maps for all parts.

    >>> from shiftmatch.core.covariance import ChannelMoments
    >>> train = measure(ChannelMoments(), torch.tensor([[-1.0], [1.0]]))
    >>> transport(torch.tensor([[10.0], [30.0]]), ChannelMoments(), train)
    tensor([[-1.],
            [ 1.]])
    """
    if len(x) == 0:
        return x
    estimate = _Estimate(structure, weight, every, roots)
    goals = [goal_of(moments, structure.tolerance.train, x.device, roots) for moments in train]
    groups = channel_groups(x, structure.views(x.ndim)) if together is alone else [slice(None)]
    with_gradients = torch.is_grad_enabled() and x.requires_grad
    shared = rooms or Rooms()

    def moved(channels: slice) -> Centred:
        room = Rooms() if with_gradients else shared
        return _moved(x[:, channels], estimate, [goal.of(channels) for goal in goals], room, together)

    with _full_precision(x):
        if with_gradients:
            return torch.cat([moved(channels).features() for channels in groups], dim=1).to(x.dtype)
        out = x if in_place else empty_as(x)
        for channels in groups:
            moved(channels).write(out[:, channels])
        return out


class _Estimate(NamedTuple):
    """How the map of a batch is found."""

    structure: Covariance
    weight: float
    every: int
    roots: RootMethod


def _moved(x: Tensor, estimate: _Estimate, goals: Sequence[Goal], rooms: Rooms, together: Together) -> Centred:
    """Channels that need no others, moved."""
    batch = Centred.of(x, rooms)
    seen = batch if estimate.every == 1 else Centred.of(x[:: estimate.every], rooms)
    for views, aims in _stages(estimate.structure, x.ndim, goals):
        maps = together(seen.summary(views), partial(_maps, views=views, goals=aims, estimate=estimate))
        for view, (scale, offset) in zip(views, maps, strict=True):
            moved = batch.moved(view, scale, offset)
            seen = moved if seen is batch else seen.moved(view, scale, offset)
            batch = moved
    return batch


def _stages(structure: Covariance, ndim: int, goals: Sequence[Goal]) -> list[tuple[Sequence[View], Sequence[Goal]]]:
    """Views that are measured on the same features, with what they are moved to."""
    views = structure.views(ndim)
    if structure.one_shot:
        return [(views, goals)]
    return [([view], [goal]) for view, goal in zip(views, goals, strict=True)]


def _maps(parts: Sequence[Summary], views: Sequence[View], goals: Sequence[Goal], estimate: _Estimate) -> Maps:
    """A and b of every view, for all parts of a batch."""
    test = _moments(views, reduce(add, parts))
    return [_affine(moments, goal, estimate) for moments, goal in _at_once(test, goals)]


def _moments(views: Sequence[View], summary: Summary) -> tuple[Moments, ...]:
    moments = summary.moments(views)
    if not all(measured.is_finite() for measured in moments):
        raise NonFiniteError("the features hold NaN or infinite values, so nothing can be measured; look at the input.")
    return moments


def _affine(test: Moments, goal: Goal, estimate: _Estimate) -> tuple[Tensor, Tensor]:
    """A and b of x' = A x + b per group; the identity where a group is constant."""
    train = goal.moments
    alive = ~_either_constant(test, train)[..., None, None]
    test = blend(test, train, estimate.weight)
    whiten = sym_power(test.covariance, -0.5, estimate.structure.tolerance.test, estimate.roots)
    scale = torch.where(alive, goal.root @ whiten, torch.eye(whiten.shape[-1]).to(whiten))
    offset = torch.where(alive, train.mean - scale @ test.mean, torch.zeros_like(test.mean))
    return scale, offset


def _either_constant(a: Moments, b: Moments) -> Bool[Tensor, "*group"]:
    def constant(ours: Moments, theirs: Moments) -> Tensor:
        level = ours.mean.square().mean((-2, -1)) + theirs.variance
        return ours.variance <= DEAD**2 * level

    return constant(a, b) | constant(b, a)


def _at_once(test: Sequence[Moments], goals: Sequence[Goal]) -> Iterator[tuple[Moments, Goal]]:
    """Moments measured together: the first pair moves mean and scale, so that the others have only the shape left."""
    yield test[0], goals[0]
    for now, goal in zip(test[1:], goals[1:], strict=True):
        train = goal.moments
        rescale = torch.where(_either_constant(now, train), 1.0, train.variance / now.variance)[..., None, None]
        yield replace(now, mean=train.mean, scatter=now.scatter * rescale), goal


def _check_size(structure: Covariance, view: View, x: Features) -> None:
    groups, side = (prod(x.shape[axis] for axis in axes) for axes in (view.group, view.along))
    size = 8 * groups * side**2
    if size > MOST_BYTES:
        raise InputError(
            f"{type(structure).__name__} needs {groups} covariances of {side} × {side} here, {size / 2**30:.0f} GB. "
            "Use SpatialKronecker(), or choose sites with smaller maps."
        )


def _full_precision(x: Tensor) -> torch.autocast:
    """Products of matrices as they are, also where the user's network runs under autocast."""
    return torch.autocast(x.device.type, enabled=False)
