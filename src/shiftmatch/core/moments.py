"""Moments: what is kept of features, so that they can be streamed, merged and stored."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and scatter of samples that are d × k matrices; `+` merges two sets of samples.

    Ordinary vectors have k = 1. With k > 1 the columns share one scatter but keep a mean each, which is what
    a Kronecker factor and a covariance shared by all channels need. Samples are centred before they are multiplied,
    in their own precision; sums are kept in float64, on the CPU.
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
        centred = (x - mean).flatten(-2)
        return cls(x.shape[-1], _keep(mean[..., 0]), _keep(centred @ centred.mT))

    @property
    def covariance(self) -> Float[Tensor, "*group d d"]:
        """Scatter over all samples and columns, with the population normaliser."""
        return self.scatter / (self.count * self.mean.shape[-1])

    @property
    def variance(self) -> Float[Tensor, "*group"]:
        """Mean of the covariance's diagonal: the scale of each group."""
        return self.covariance.diagonal(dim1=-2, dim2=-1).mean(-1)

    def is_finite(self) -> bool:
        return bool(self.mean.isfinite().all() and self.scatter.isfinite().all())

    def __add__(self, other: "Moments") -> "Moments":
        count, delta = self.count + other.count, other.mean - self.mean
        between = (self.count * other.count / count) * (delta @ delta.mT)
        mean = self.mean + delta * (other.count / count)
        return Moments(count, mean, self.scatter + other.scatter + between)


def blend(test: Moments, train: Moments, weight: float) -> Moments:
    """Moments of which the part `weight` is the training data's: 0 gives the test moments, 1 the training moments."""
    if weight == 0:
        return test
    mean = torch.lerp(test.mean, train.mean, weight)
    covariance = torch.lerp(test.covariance, train.covariance, weight)
    return Moments(test.count, mean, covariance * (test.count * mean.shape[-1]))


def _keep(x: Tensor) -> Tensor:
    return x.detach().to("cpu", torch.float64)
