"""Moments: what is kept of features, so that they can be streamed, merged and stored."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and scatter of samples that are d × k matrices; `+` merges two sets of samples.

    Ordinary vectors have k = 1. With k > 1 the columns share one scatter but keep a mean each, which is what
    a Kronecker factor and a covariance shared by all channels need. They are kept in float64, where the samples are
    if that is possible.
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
        return cls(x.shape[-1], precise(mean[..., 0]), precise(flat @ flat.mT))

    @staticmethod
    def cat(parts: Sequence["Moments"]) -> "Moments":
        """Groups measured apart, on the same samples."""
        return Moments(parts[0].count, torch.cat([m.mean for m in parts]), torch.cat([m.scatter for m in parts]))

    def of_groups(self, groups: slice) -> "Moments":
        """Some of the groups."""
        return replace(self, mean=self.mean[groups], scatter=self.scatter[groups])

    def to(self, device: torch.device | str) -> "Moments":
        """The same moments there."""
        return replace(self, mean=precise(self.mean, device), scatter=precise(self.scatter, device))

    @property
    def covariance(self) -> Float[Tensor, "*group d d"]:
        """Scatter over all samples and columns, with the population normaliser."""
        return self.scatter / (self.count * self.mean.shape[-1])

    @property
    def variance(self) -> Float[Tensor, "*group"]:
        """Mean of the covariance's diagonal: the scale of each group."""
        return self.scatter.diagonal(dim1=-2, dim2=-1).mean(-1) / (self.count * self.mean.shape[-1])

    def is_finite(self) -> bool:
        """Whether the samples were: one that is not makes every deviation from the mean infinite or NaN."""
        return bool(self.scatter.isfinite().all())

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


def precise(x: Tensor, device: torch.device | str | None = None) -> Tensor:
    """In double precision on a device, or on the CPU for a device that has none."""
    device = torch.device(device or x.device)
    return x.detach().to("cpu" if device.type == "mps" else device, torch.float64)
