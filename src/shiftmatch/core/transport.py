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
from shiftmatch.core.pieces import Room, Rooms, channel_groups
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


def measure(structure: Covariance, x: Features, rooms: Rooms | None = None) -> tuple[Moments, ...]:
    """The moments of one batch of features, one for each view of the structure. `rooms` are memory from a call before.

    >>> from shiftmatch.core.covariance import SpatialKronecker
    >>> [moments.scatter.shape for moments in measure(SpatialKronecker(), torch.ones(2, 3, 4, 5))]
    [torch.Size([3, 4, 4]), torch.Size([3, 5, 5])]
    """
    views, shared = structure.views(x.ndim), rooms or Rooms()
    for view in views:
        _check_size(structure, view, x)

    def of(channels: slice) -> tuple[Moments, ...]:
        batch = Centred.of(x[:, channels], shared, views)
        batch.close()
        return _moments(views, batch.summary)

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
    them; what is returned may lie elsewhere. Where `x` is a part of a batch, `together` finds the maps for all parts.

    >>> from shiftmatch.core.covariance import ChannelMoments
    >>> train = measure(ChannelMoments(), torch.tensor([[-1.0], [1.0]]))
    >>> transport(torch.tensor([[10.0], [30.0]]), ChannelMoments(), train)
    tensor([[-1.],
            [ 1.]])
    """
    if len(x) == 0:
        return x
    goals = [goal_of(moments, structure.tolerance.train, x.device, roots) for moments in train]
    groups = channel_groups(x, structure.views(x.ndim)) if together is alone else [slice(None)]
    with_gradients = torch.is_grad_enabled() and x.requires_grad
    shared, spent = rooms or Rooms(), in_place and len(groups) == 1 and not with_gradients

    def moved(channels: slice) -> Centred:
        way = _Way(structure, weight, every, roots, together, Rooms() if with_gradients else shared, spent)
        return _moved(x[:, channels], [goal.of(channels) for goal in goals], way)

    with _full_precision(x):
        if with_gradients:
            return torch.cat([moved(channels).features() for channels in groups], dim=1).to(x.dtype)
        if len(groups) == 1:
            return moved(groups[0]).in_order_of(x)
        out = x if in_place else Room().like(x)
        for channels in groups:
            moved(channels).write(out[:, channels])
        return out


class _Way(NamedTuple):
    """How the map of a batch is found, and where."""

    structure: Covariance
    weight: float
    every: int
    roots: RootMethod
    together: Together
    rooms: Rooms
    spent: bool  # whether the memory of the features may be used for anything else


def _moved(x: Tensor, goals: Sequence[Goal], way: _Way) -> Centred:
    """Channels that need no others, moved. Each stage ends with a look at what the next one needs to know."""
    stages = _stages(way.structure, x.ndim, goals)
    first, *later = (views for views, _ in stages)
    sample = Centred.of(x[:: way.every], way.rooms, first) if way.every > 1 else None
    batch = Centred.of(x, way.rooms, () if sample else first, spent=way.spent)
    for (views, aims), following in zip(stages, [*later, ()], strict=True):
        seen = sample or batch
        maps = way.together(seen.summary, partial(_maps, views=views, goals=aims, way=way))
        for view, (scale, offset) in zip(views, maps, strict=True):
            next_views = following if view is views[-1] else ()
            batch = batch.moved(view, scale, offset, () if sample else next_views)
            sample = sample and sample.moved(view, scale, offset, next_views)
    return batch


def _stages(structure: Covariance, ndim: int, goals: Sequence[Goal]) -> list[tuple[Sequence[View], Sequence[Goal]]]:
    """Views that are measured on the same features, with what they are moved to."""
    views = structure.views(ndim)
    if structure.one_shot:
        return [(views, goals)]
    return [([view], [goal]) for view, goal in zip(views, goals, strict=True)]


def _maps(parts: Sequence[Summary], views: Sequence[View], goals: Sequence[Goal], way: _Way) -> Maps:
    """A and b of every view, for all parts of a batch."""
    test = _moments(views, reduce(add, parts))
    return [_affine(moments, goal, way) for moments, goal in _at_once(test, goals)]


def _moments(views: Sequence[View], summary: Summary) -> tuple[Moments, ...]:
    moments = summary.moments(views)
    if not all(measured.is_finite() for measured in moments):
        raise NonFiniteError("the features hold NaN or infinite values, so nothing can be measured; look at the input.")
    return moments


def _affine(test: Moments, goal: Goal, way: _Way) -> tuple[Tensor, Tensor]:
    """A and b of x' = A x + b per group; the identity where a group is constant."""
    train = goal.moments
    alive = ~_either_constant(test, train)[..., None, None]
    test = blend(test, train, way.weight)
    whiten = sym_power(test.covariance, -0.5, way.structure.tolerance.test, way.roots)
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
