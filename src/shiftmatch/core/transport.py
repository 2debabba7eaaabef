"""The matching formula: x' = Σ_train^{1/2} Σ_test^{-1/2} (x − μ_test) + μ_train, one view after the other."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from math import prod
from operator import add

import torch
from jaxtyping import Bool
from torch import Tensor

from shiftmatch.core.covariance import Covariance, Tolerance, View
from shiftmatch.core.linalg import sym_power
from shiftmatch.core.moments import Moments, blend
from shiftmatch.errors import InputError, NonFiniteError
from shiftmatch.shapes import Features

PIECE = 64
"""Images handled at once, so that a piece stays in the processor's cache."""

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
    views, pieces = structure.views(x.ndim), _pieces(x)
    for view in views:
        _check_size(structure, view, x)
    return tuple(_measure(view, pieces) for view in views)


def transport(x: Features, structure: Covariance, train: Sequence[Moments], *, weight: float = 0.0) -> Features:
    """Move a batch of features to the training moments, view by view.

    `weight` is the part that the training moments have in those of the batch: 0 trusts the batch alone, 1 is the
    identity. Gradients flow through the features, not through their moments. An empty batch is returned as it is.

    >>> from shiftmatch.core.covariance import ChannelMoments
    >>> train = measure(ChannelMoments(), torch.tensor([[-1.0], [1.0]]))
    >>> transport(torch.tensor([[10.0], [30.0]]), ChannelMoments(), train)
    tensor([[-1.],
            [ 1.]])
    """
    if len(x) == 0:
        return x
    views, pieces = structure.views(x.ndim), _pieces(x)
    fixed = list(_at_once([_measure(view, pieces) for view in views], train)) if structure.one_shot else []
    for i, view in enumerate(views):
        test, goal = fixed[i] if fixed else (_measure(view, pieces), train[i])
        scale, offset = _affine(test, goal, structure.tolerance, weight)
        pieces = [_apply(view, scale, offset, piece) for piece in pieces]
    return torch.cat(pieces).to(x.dtype)


def _affine(test: Moments, train: Moments, tolerance: Tolerance, weight: float) -> tuple[Tensor, Tensor]:
    """A and b of x' = A x + b per group; the identity where a group is constant."""
    alive = ~_either_constant(test, train)[..., None, None]
    test = blend(test, train, weight)
    color = sym_power(train.covariance, 0.5, tolerance.train)
    whiten = sym_power(test.covariance, -0.5, tolerance.test)
    scale = torch.where(alive, color @ whiten, torch.eye(color.shape[-1], dtype=color.dtype))
    offset = torch.where(alive, train.mean - scale @ test.mean, torch.zeros_like(test.mean))
    return scale, offset


def _either_constant(a: Moments, b: Moments) -> Bool[Tensor, "*group"]:
    def constant(ours: Moments, theirs: Moments) -> Tensor:
        level = ours.mean.square().mean((-2, -1)) + theirs.variance
        return ours.variance <= DEAD**2 * level

    return constant(a, b) | constant(b, a)


def _at_once(test: Sequence[Moments], train: Sequence[Moments]) -> Iterator[tuple[Moments, Moments]]:
    """Moments measured together: the first pair moves mean and scale, so that the others have only the shape left."""
    yield test[0], train[0]
    for now, goal in zip(test[1:], train[1:], strict=True):
        rescale = torch.where(_either_constant(now, goal), 1.0, goal.variance / now.variance)[..., None, None]
        yield replace(now, mean=goal.mean, scatter=now.scatter * rescale), goal


def _check_size(structure: Covariance, view: View, x: Features) -> None:
    groups, side = (prod(x.shape[axis] for axis in axes) for axes in (view.group, view.along))
    size = 8 * groups * side**2
    if size > MOST_BYTES:
        raise InputError(
            f"{type(structure).__name__} needs {groups} covariances of {side} × {side} here, {size / 2**30:.0f} GB. "
            "Use SpatialKronecker(), or choose sites with smaller maps."
        )


def _pieces(x: Features) -> list[Tensor]:
    """Features in cache-sized pieces, in at least single precision, laid out so that views of them need no copy.

    In memory the images come between the first and the second axis of space: then the rows of a channel lie together
    in (c, h, b·w) and its columns in (c, h·b, w).
    """
    x = x if x.dtype == torch.float64 else x.float()
    if x.ndim == 2:
        return list(x.split(PIECE))
    order = (1, 2, 0, *range(3, x.ndim))
    inverse = [order.index(axis) for axis in range(x.ndim)]
    return [piece.permute(order).contiguous().permute(inverse) for piece in x.split(PIECE)]


def _full_precision(pieces: Sequence[Tensor]) -> torch.autocast:
    """Products of matrices as they are, also where the user's network runs under autocast."""
    return torch.autocast(pieces[0].device.type, enabled=False)


@torch.no_grad()
def _measure(view: View, pieces: Sequence[Tensor]) -> Moments:
    with _full_precision(pieces):
        moments = reduce(add, (Moments.of(view.open(piece)) for piece in pieces))
    if not moments.is_finite():
        raise NonFiniteError("the features hold NaN or infinite values, so nothing can be measured; look at the input.")
    return moments


def _apply(view: View, scale: Tensor, offset: Tensor, piece: Tensor) -> Tensor:
    """A x + b in every group of the view, in the memory layout that the piece has."""
    scale, offset = scale.to(piece.device, piece.dtype), offset.to(piece.device, piece.dtype)
    samples = view.open(piece)
    flat, bias = samples.flatten(-2), offset[..., None].expand_as(samples).flatten(-2)
    samples_lie_together = flat.stride(-1) == 1
    with _full_precision([piece]):
        moved = (
            torch.baddbmm(bias, scale, flat) if samples_lie_together else torch.baddbmm(bias.mT, flat.mT, scale.mT).mT
        )
    return view.close(moved.unflatten(-1, samples.shape[-2:]), piece)
