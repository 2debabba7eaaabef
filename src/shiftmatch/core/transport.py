"""The matching formula: x' = Σ_train^{1/2} Σ_test^{-1/2} (x − μ_test) + μ_train, one view after the other."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple, TypedDict

import torch
from jaxtyping import Bool
from torch import Tensor

from shiftmatch.core.centred import Centred
from shiftmatch.core.covariance import Covariance, View
from shiftmatch.core.goals import Goal, goal_of
from shiftmatch.core.linalg import RootMethod, sym_power
from shiftmatch.core.moments import Moments, blend
from shiftmatch.core.pieces import NO_ROOMS, Room, Rooms, channel_groups, empty_as
from shiftmatch.errors import InputError, NonFiniteError
from shiftmatch.shapes import Features

MOST_BYTES = 4 * 2**30
"""Covariances of one view that take more memory than this are refused rather than tried."""

DEAD = 1e-6
"""A channel whose standard deviation is below this part of its mean, or of the other side's deviation, is constant."""


def measure(structure: Covariance, x: Features) -> tuple[Moments, ...]:
    """The moments of one batch of features, one for each view of the structure.

    >>> from shiftmatch.core.covariance import SpatialKronecker
    >>> [moments.scatter.shape for moments in measure(SpatialKronecker(), torch.ones(2, 3, 4, 5))]
    [torch.Size([3, 4, 4]), torch.Size([3, 5, 5])]
    """
    views = structure.views(x.ndim)
    for view in views:
        _check_size(structure, view, x)
    with _full_precision(x):
        room = Room()
        groups = [_moments(views, Centred.of(x[:, channels], room)) for channels in channel_groups(x, views)]
    return tuple(Moments.cat(parts).to("cpu") for parts in zip(*groups, strict=True))


class How(TypedDict, total=False):
    """The settings of `transport`."""

    weight: float
    every: int
    roots: RootMethod
    rooms: Rooms | None
    in_place: bool


def transport(
    x: Features,
    structure: Covariance,
    train: Sequence[Moments],
    *,
    weight: float = 0.0,
    every: int = 1,
    roots: RootMethod = "auto",
    rooms: Rooms | None = None,
    in_place: bool = False,
) -> Features:
    """Move a batch of features to the training moments, view by view.

    `weight` is the part that the training moments have in those of the batch: 0 trusts the batch alone, 1 is the
    identity. The batch is measured on one image in `every`; `roots` says how its roots are taken. `rooms` are memory
    from a call before, and `in_place` allows to write over the features, where no gradients need them. Gradients
    flow through the features, not through their moments. An empty batch is returned as it is.

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
    groups = channel_groups(x, structure.views(x.ndim))
    with_gradients = torch.is_grad_enabled() and x.requires_grad
    room = NO_ROOMS if with_gradients else rooms or Rooms()
    moved = (_moved(x[:, part], estimate, [goal.of(part) for goal in goals], room) for part in groups)
    with _full_precision(x):
        if with_gradients:
            return torch.cat([batch.features() for batch in moved], dim=1).to(x.dtype)
        out = x if in_place else empty_as(x)
        for part, batch in zip(groups, moved, strict=True):
            batch.write(out[:, part])
        return out


class _Estimate(NamedTuple):
    """How the map of a batch is found."""

    structure: Covariance
    weight: float
    every: int
    roots: RootMethod


def _moved(x: Features, estimate: _Estimate, goals: Sequence[Goal], rooms: Rooms) -> Centred:
    """Channels that need no others, moved."""
    structure, batch = estimate.structure, Centred.of(x, rooms.rest, rooms.spare)
    views = structure.views(x.ndim)
    seen = batch if estimate.every == 1 else Centred.of(x[:: estimate.every])
    fixed = list(_at_once(_moments(views, seen), goals)) if structure.one_shot else []
    for i, view in enumerate(views):
        test, goal = fixed[i] if fixed else (_moments([view], seen)[0], goals[i])
        scale, offset = _affine(test, goal, estimate)
        moved = batch.moved(view, scale, offset)
        seen = moved if seen is batch else seen.moved(view, scale, offset)
        batch = moved
    return batch


def _moments(views: Sequence[View], batch: Centred) -> tuple[Moments, ...]:
    moments = tuple(map(batch.moments, views))
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
