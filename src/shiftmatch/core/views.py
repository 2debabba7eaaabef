"""Views of features as samples of matrices, and the matching formula in them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from operator import add
from typing import TypeAlias, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from shiftmatch.core.linalg import Regularisation, sym_power
from shiftmatch.core.moments import Moments, check_finite, constant, shrink
from shiftmatch.errors import InputError
from shiftmatch.shapes import Features

MAX_BYTES = 4 * 2**30
"""Covariances of one view that take more memory than this are refused rather than tried."""

CHUNK_BYTES = 2 << 20
"""Images are handled in chunks of about this size, which fit in the processor's caches."""

Target: TypeAlias = Mapping[str, Tensor]
"""Where features are moved to, as named tensors that a module can keep as buffers."""

AffineMap: TypeAlias = tuple[Float[Tensor, "g d d"], Float[Tensor, "g d k"]]
"""A and b of x' = A x + b, in every group of a view."""


@final
@dataclass(frozen=True)
class View:
    """Features as samples of d × k matrices, one family per group: which axes are which; all others are samples.

    Args:
        along: the axes of the vector whose covariance is matched.
        group: the axes along which every entry has a covariance of its own.
        columns: the axes of columns, which share a covariance but have a mean each.

    >>> View(along=(2,), group=(1,)).to_samples(torch.zeros(10, 3, 8, 6)).shape  # rows of every channel
    torch.Size([3, 8, 1, 60])
    """

    along: tuple[int, ...] = ()
    group: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()

    def to_samples(self, x: Features) -> Float[Tensor, "g d k n"]:
        """Rearrange features into samples; without a copy where their memory layout allows it."""
        roles = self._roles(x)
        sizes = [prod(x.shape[axis] for axis in axes) for axes in roles]
        return x.permute(*sum(roles, ())).reshape(sizes)

    def from_samples(self, samples: Float[Tensor, "g d k n"], like: Features) -> Features:
        """Undo `to_samples` for samples of those features."""
        order: tuple[int, ...] = sum(self._roles(like), ())
        inverse = [order.index(axis) for axis in range(like.ndim)]
        return samples.reshape([like.shape[axis] for axis in order]).permute(inverse)

    def _roles(self, x: Features) -> tuple[tuple[int, ...], ...]:
        """Axes by role; samples in the order of memory, so that they can be seen as one axis."""
        taken = self.group + self.along + self.columns
        samples = (axis for axis in range(x.ndim) if axis not in taken)
        return self.group, self.along, self.columns, tuple(sorted(samples, key=x.stride, reverse=True))


def measure_views(views: Sequence[View], x: Features) -> tuple[Moments, ...]:
    """The moments of one batch of features, one for each view, summed over chunks in float64."""
    for view in views:
        _check_size(view, x)
    moments = tuple(
        reduce(add, (Moments.of(view.to_samples(chunk)) for chunk in chunks(x.detach().to(compute_dtype(x)))))
        for view in views
    )
    check_finite(moments)
    return moments


def target_of(train: Sequence[Moments], regularisation: Regularisation) -> dict[str, Tensor]:
    """Training moments with Σ_train^{1/2}, which is computed once."""
    found: dict[str, Tensor] = {}
    for i, moments in enumerate(train):
        found[f"mean{i}"], found[f"covariance{i}"] = moments.mean, moments.covariance
        found[f"root{i}"] = sym_power(moments.covariance, 0.5, regularisation.train)
    return found


def transport_views(
    views: Sequence[View],
    x: Features,
    target: Target,
    regularisation: Regularisation,
    *,
    shrinkage: float | Tensor,
    one_shot: bool,
) -> Features:
    """X' = Σ_train^{1/2} Σ_test^{-1/2} (x − μ_test) + μ_train, one view after the other.

    Each view is measured on what the one before has matched; with `one_shot` all are measured on the same features.
    Gradients flow through the features, not through their moments.
    """
    train = [_train_moments(target, i) for i in range(len(views))]
    measured = _without_scale(measure_views(views, x), train) if one_shot else None
    for i, view in enumerate(views):
        test = measured[i] if measured else measure_views([view], x)[0]
        x = _apply(view, _affine_map(test, train[i], target[f"root{i}"], regularisation, shrinkage), x)
    return x


def _train_moments(target: Target, view: int) -> Moments:
    mean = target[f"mean{view}"]
    return Moments(1, mean, target[f"covariance{view}"] * mean.shape[-1])


def _affine_map(
    test: Moments, train: Moments, root: Tensor, regularisation: Regularisation, shrinkage: float | Tensor
) -> AffineMap:
    """A and b per group; the identity where a group is constant."""
    varies = ~_either_constant(test, train)[..., None, None]
    test = shrink(test, train, shrinkage)
    whiten = sym_power(test.covariance, -0.5, regularisation.test)
    scale = torch.where(varies, root @ whiten, torch.eye(whiten.shape[-1]).to(whiten))
    offset = torch.where(varies, train.mean - scale @ test.mean, torch.zeros_like(test.mean))
    return scale, offset


def _apply(view: View, affine: AffineMap, x: Features) -> Features:
    """A x + b in every group, chunk by chunk."""
    scale, offset = (part.to(x.device, compute_dtype(x)) for part in affine)

    def moved(chunk: Tensor) -> Tensor:
        samples = view.to_samples(chunk.to(scale.dtype))
        flat = torch.baddbmm(offset[..., None].expand_as(samples).flatten(2), scale, samples.flatten(2))
        return view.from_samples(flat.unflatten(2, samples.shape[2:]), chunk).to(x.dtype)

    return torch.cat([moved(chunk) for chunk in chunks(x)])


def _either_constant(a: Moments, b: Moments) -> Bool[Tensor, "*group"]:
    squares = [m.mean.square().mean((-2, -1)) for m in (a, b)]
    return constant(squares[0], a.variance, b.variance) | constant(squares[1], b.variance, a.variance)


def _without_scale(test: Sequence[Moments], train: Sequence[Moments]) -> list[Moments]:
    """One-shot moments: the first view matches mean and scale, so those of the others get the training ones."""
    found = [test[0]]
    for batch, known in zip(test[1:], train[1:], strict=True):
        rescale = torch.where(_either_constant(batch, known), 1.0, known.variance / batch.variance)[..., None, None]
        found.append(replace(batch, mean=known.mean, scatter=batch.scatter * rescale))
    return found


def chunks(x: Features) -> Iterator[Features]:
    """Some images at a time on a CPU, so that they stay in its caches; all of them on other devices.

    >>> [len(chunk) for chunk in chunks(torch.zeros(1000, 2, 32, 32))]
    [250, 250, 250, 250]
    """
    count = min(-(-x.nbytes // CHUNK_BYTES), len(x)) if x.device.type == "cpu" else 1
    return iter(x.tensor_split(count) if count > 1 else (x,))


def compute_dtype(x: Tensor) -> torch.dtype:
    """The precision that features are handled in: single at least."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _check_size(view: View, x: Features) -> None:
    groups, side = (prod(x.shape[axis] for axis in axes) for axes in (view.group, view.along))
    size = 8 * groups * side**2
    if size > MAX_BYTES:
        raise InputError(
            f"This covariance needs {groups} matrices of {side} × {side} here, {size / 2**30:.0f} GB. "
            "Use Spectrum() or SpatialKronecker(), or choose sites with smaller maps."
        )
