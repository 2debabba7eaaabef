"""Moments: what is kept of features, so that they can be streamed, merged and stored."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from shiftmatch.errors import NonFiniteError
from shiftmatch.shapes import Count

CONSTANT_RTOL = 1e-6
"""A group is constant if its standard deviation is below this part of its mean, or of that which it is matched to."""

NOT_FINITE = "the features hold NaN or infinite values, so nothing can be measured; look at the input."


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and scatter of samples that are d × k matrices; `+` merges two sets of samples.

    Ordinary vectors have k = 1. With k > 1 the columns share one scatter but keep a mean each, which is what
    a Kronecker factor and a covariance shared by all channels need. They are kept in float64, on the
    device of the samples if it has that precision.

    Args:
        count: how many samples.
        mean: their mean, for each group a d × k matrix.
        scatter: Σ (X − M)(X − M)ᵀ over samples and columns, for each group a d × d matrix.

    >>> x = torch.randn(3, 1, 10)  # ten vectors of three numbers
    >>> both = Moments.of(x[..., :4]) + Moments.of(x[..., 4:])
    >>> both.count, torch.allclose(both.covariance, Moments.of(x).covariance)
    (10, True)
    """

    count: int
    mean: Float[Tensor, "*group d k"]
    scatter: Float[Tensor, "*group d d"]  # Σ (X − M)(X − M)ᵀ over samples and columns

    @classmethod
    def of(cls, x: Float[Tensor, "*group d k n"]) -> "Moments":
        """Measure n samples.

        >>> Moments.of(torch.tensor([[[1.0, 3.0]]])).covariance
        tensor([[1.]], dtype=torch.float64)
        """
        mean = x.mean(-1, keepdim=True)
        flat = (x - mean).flatten(-2)
        return cls(x.shape[-1], to_float64(mean[..., 0]), to_float64(flat @ flat.mT))

    def to(self, device: torch.device | str) -> "Moments":
        """The same moments on another device."""
        return replace(self, mean=to_float64(self.mean, device), scatter=to_float64(self.scatter, device))

    @property
    def covariance(self) -> Float[Tensor, "*group d d"]:
        """Scatter over all samples and columns, with the population normaliser."""
        return self.scatter / (self.count * self.mean.shape[-1])

    @property
    def variance(self) -> Float[Tensor, "*group"]:
        """Mean of the covariance's diagonal: the scale of each group."""
        return self.scatter.diagonal(dim1=-2, dim2=-1).mean(-1) / (self.count * self.mean.shape[-1])

    def is_finite(self) -> bool:
        """Whether the samples were finite: one that is not makes the mean, so every deviation, infinite or NaN."""
        return bool(self.scatter.isfinite().all())

    def __add__(self, other: "Moments") -> "Moments":
        count, delta = self.count + other.count, other.mean - self.mean
        between = (self.count * other.count / count) * (delta @ delta.mT)
        mean = self.mean + delta * (other.count / count)
        return Moments(count, mean, self.scatter + other.scatter + between)


class BatchMoments(NamedTuple):
    """Mean and variance of every coefficient of a batch: c channels of f coefficients, f = 1 without space."""

    mean: Tensor  # c f, complex in the Fourier basis
    variance: Float[Tensor, "c f"]
    images: Count


def shrink(test: Moments, train: Moments, shrinkage: float | Tensor) -> Moments:
    """Test moments pulled toward the training moments: 0 leaves them alone, 1 gives the training moments."""
    if isinstance(shrinkage, float) and shrinkage == 0:
        return test
    mean = torch.lerp(test.mean, train.mean, shrinkage)
    covariance = torch.lerp(test.covariance, train.covariance, shrinkage)
    return Moments(test.count, mean, covariance * (test.count * mean.shape[-1]))


def shrinkage_for(prior_images: float | int, images: Count) -> float | Tensor:
    """N / (N + n): the share of the training statistics in those of n images, where they count for N.

    A compiled or exported graph, in which n is not known yet, gets it as a tensor.

    >>> shrinkage_for(16, 48), shrinkage_for(float("inf"), 48), shrinkage_for(0, 48)
    (0.25, 1.0, 0.0)
    """
    if prior_images in (0, float("inf")):
        return float(prior_images > 0)
    if isinstance(images, Tensor):
        return prior_images / (prior_images + images)
    if torch.compiler.is_compiling():
        return prior_images / (prior_images + torch.scalar_tensor(images))  # type: ignore[arg-type]
    return prior_images / (prior_images + images)


def constant(mean_square: Tensor, variance: Tensor, other_variance: Tensor) -> Bool[Tensor, "*group"]:
    """Whether groups are constant, relative to their own level and to the variance of the other moments."""
    return variance <= CONSTANT_RTOL**2 * (mean_square + other_variance)


def to_float64(x: Tensor, device: torch.device | str | None = None) -> Tensor:
    """In double precision on a device, or on the CPU for a device that has none."""
    device = torch.device(device or x.device)
    return x.detach().to("cpu" if device.type == "mps" else device, torch.float64)


def merge(a: BatchMoments, b: BatchMoments) -> BatchMoments:
    """The moments of two batches as one."""
    share, delta = b.images / (a.images + b.images), b.mean - a.mean
    variance = a.variance + share * (b.variance - a.variance) + share * (1 - share) * abs_square(delta)
    return BatchMoments(a.mean + share * delta, variance, a.images + b.images)


def affinely(test: BatchMoments, scale: Tensor, shift: Tensor, unit: Tensor | float) -> BatchMoments:
    """The moments of scale · x + shift; `unit` has the coefficients of a map of ones."""
    return BatchMoments(scale * test.mean + shift * unit, scale.square() * test.variance, test.images)


def abs_square(z: Tensor) -> Tensor:
    """|z|², coordinate by coordinate."""
    return torch.view_as_real(z).square().sum(-1) if z.is_complex() else z.square()


def check_finite(moments: Sequence[Moments]) -> None:
    """Refuse moments of features that are not finite."""
    if not all(measured.is_finite() for measured in moments):
        raise NonFiniteError(NOT_FINITE)


def check_batch(test: BatchMoments) -> None:
    """Refuse the moments of a batch that is not finite; a compiled graph cannot test that."""
    if not torch.compiler.is_compiling() and not isfinite(test.variance.sum()):
        raise NonFiniteError(NOT_FINITE)
