"""The matching formula: x' = Σ_train^{1/2} Σ_test^{-1/2} (x − μ_test) + μ_train, one view after the other."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from operator import add

import torch
from jaxtyping import Bool
from torch import Tensor

from shiftmatch.core.covariance import Covariance, Tolerance, View
from shiftmatch.core.linalg import sym_power
from shiftmatch.core.moments import Moments, blend
from shiftmatch.errors import NonFiniteError
from shiftmatch.shapes import Features

PIECE = 64
"""Images handled at once: the pieces stay in cache, and the float64 copies stay small."""

DEAD = 1e-6
"""A channel whose standard deviation is below this part of its mean, or of the other side's deviation, is constant."""


def measure(structure: Covariance, x: Features) -> tuple[Moments, ...]:
    """The moments of one batch of features, one for each view of the structure.

    >>> from shiftmatch.core.covariance import SpatialKronecker
    >>> [moments.scatter.shape for moments in measure(SpatialKronecker(), torch.ones(2, 3, 4, 5))]
    [torch.Size([3, 4, 4]), torch.Size([3, 5, 5])]
    """
    return tuple(_measure_view(view, x) for view in structure.views(x.ndim))


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
    dtype, device = x.dtype, x.device
    x = x if dtype == torch.float64 else x.float()
    views = structure.views(x.ndim)
    fixed = list(_at_once(measure(structure, x), train)) if structure.one_shot else []
    with torch.autocast(device.type, enabled=False):
        for i, view in enumerate(views):
            test, goal = fixed[i] if fixed else (_measure_view(view, x), train[i])
            x = _apply(view, *_affine(test, goal, structure.tolerance, weight), x)
    return x.to(dtype)


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


@torch.no_grad()
def _measure_view(view: View, x: Features) -> Moments:
    moments = reduce(add, (Moments.of(view.open(piece)) for piece in x.split(PIECE)))
    if not moments.is_finite():
        raise NonFiniteError("the features hold NaN or infinite values, so nothing can be measured; look at the input.")
    return moments


def _apply(view: View, scale: Tensor, offset: Tensor, x: Features) -> Features:
    """A x + b in every group of the view."""
    scale, offset = scale.to(x.device, x.dtype), offset.to(x.device, x.dtype)[..., None]

    def one(piece: Features) -> Features:
        samples = view.open(piece)
        moved = (scale @ samples.flatten(-2)).view_as(samples) + offset
        return view.close(moved, piece.shape)

    return torch.cat([one(piece) for piece in x.split(PIECE)])
