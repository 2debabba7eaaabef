"""Classes as the network predicts them: moments of training features in each, and the class shares of a batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod, sqrt
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from shiftmatch.core.covariance import Covariance
from shiftmatch.core.moments import Moments, to_float64
from shiftmatch.core.spectrum import Spectrum
from shiftmatch.core.views import compute_dtype
from shiftmatch.errors import InputError
from shiftmatch.matching.inputs import logits_of
from shiftmatch.shapes import Features

MAX_CLASSES = 100
"""With more classes, no moments by class are kept: they take 2 K C numbers at a site with C channels."""

STEPS, PRIOR_SHARE = 30, 0.01
"""The EM algorithm for class shares takes 30 steps; the training shares count for a hundredth of the batch."""

TINY = 1e-12
"""In images: a class with less than this in training has none."""


def class_probabilities(output: Any, images: int) -> Float[Tensor, "b k"] | None:
    """The probabilities of classes in what a network returns; None if that is not one row of logits for each image."""
    try:
        logits = logits_of(output)
    except InputError:
        return None
    if logits.ndim != 2 or not logits.is_floating_point() or len(logits) != images:
        return None
    return to_float64(logits, "cpu").softmax(-1) if 2 <= logits.shape[1] <= MAX_CLASSES else None


def image_moments(x: Features) -> tuple[Float[Tensor, "b c"], Float[Tensor, "b c"]]:
    """Mean and variance over space, of every channel of every image.

    >>> image_moments(torch.tensor([[[1.0, 3.0]]]))
    (tensor([[2.]]), tensor([[1.]]))
    """
    x = x.to(compute_dtype(x))
    if x.ndim == 2:
        return x, torch.zeros_like(x)
    space = tuple(range(2, x.ndim))
    mean = x.mean(space)
    square = torch.linalg.vector_norm(x, dim=space).square() / prod(x.shape[2:])
    return mean, (square - mean.square()).clamp_min(0)


@final
@dataclass(frozen=True, eq=False)
class ClassMoments:
    """Mean and variance of every channel in each predicted class; `+` merges two sets of images.

    An image counts in each class with the probability that the network gives it.
    """

    count: Float[Tensor, "k"]  # of images
    mean: Float[Tensor, "k c"]
    variance: Float[Tensor, "k c"]

    @classmethod
    def of(cls, mean: Float[Tensor, "n c"], variance: Float[Tensor, "n c"], p: Float[Tensor, "b k"]) -> "ClassMoments":
        """From the moments of each image and its probabilities; an image may have several rows, such as windows.

        >>> two = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).double()
        >>> ClassMoments.of(torch.tensor([[1.0], [3.0], [5.0]]), torch.zeros(3, 1), two).variance
        tensor([[1.],
                [0.]], dtype=torch.float64)
        """
        entries = len(mean) // max(1, len(p))
        weight = p.repeat_interleave(entries, 0).mT / max(1, entries)
        mean, variance = to_float64(mean, "cpu"), to_float64(variance, "cpu")
        count = weight.sum(1, keepdim=True)
        share, centre = weight / count.clamp_min(TINY), mean.mean(0)
        means = share @ (mean - centre)
        spread = share @ (variance + (mean - centre).square()) - means.square()
        return cls(count[:, 0], centre + means, spread.clamp_min(0))

    def __add__(self, other: "ClassMoments") -> "ClassMoments":
        count = self.count + other.count
        share = (other.count / count.clamp_min(TINY))[:, None]
        delta = other.mean - self.mean
        variance = self.variance + share * (other.variance - self.variance) + share * (1 - share) * delta.square()
        return ClassMoments(count, self.mean + share * delta, variance)

    @property
    def shares(self) -> Float[Tensor, "k"]:
        """The class shares of training, all of them above 0."""
        return (self.count + PRIOR_SHARE) / (self.count.sum() + PRIOR_SHARE * len(self.count))

    def mixture(self, shares: Float[Tensor, "k"]) -> tuple[Float[Tensor, "c"], Float[Tensor, "c"]]:
        """Mean and variance of the channels for these class shares."""
        weight = (shares / shares.sum())[:, None]
        mean = (weight * self.mean).sum(0)
        return mean, (weight * (self.variance + (self.mean - mean).square())).sum(0)

    def shift(self, mean: Float[Tensor, "b c"]) -> float:
        """How far the mean of a batch is from training along the differences of classes, relative to their spread.

        ‖Π (m − μ°)‖² / Σ π°_k ‖μ_k − μ°‖² in units of the channels' standard deviations. It is near 0 for a batch with
        the class shares of training, if the sites before were matched.
        """
        centre, variance = self.mixture(self.count)
        unit = variance.sqrt().clamp_min(TINY)
        classes, own = (self.mean - centre) / unit, (to_float64(mean, "cpu").mean(0) - centre) / unit
        spread = (self.shares[:, None] * classes.square()).sum().clamp_min(TINY)
        along = torch.linalg.pinv(classes.mT, rtol=1e-6) @ own
        return float((along @ classes).square().sum() / spread)


def with_shares(
    covariance: Covariance,
    train: Sequence[Moments],
    space: Sequence[int],
    classes: ClassMoments,
    shares: Float[Tensor, "k"],
) -> tuple[Moments, ...]:
    """The training moments for other class shares π: channels have the moments of the mixture.

    μ_π = Σ π_k μ_k and σ²_π = Σ π_k (σ²_k + (μ_k − μ_π)²); the shape of a spectrum is the same in all classes.
    """
    (moments,) = train
    mean, variance = classes.mixture(classes.count)
    new_mean, new_variance = classes.mixture(shares)
    scale = torch.where(variance > 0, new_variance / variance, 1.0)[:, None, None]
    unit = sqrt(prod(space)) if isinstance(covariance, Spectrum) else 1.0  # the zero frequency of a constant 1
    means = moments.mean.reshape(len(mean), -1, moments.mean.shape[-1])
    moved = means * scale.sqrt()
    moved[:, 0, 0] = means[:, 0, 0] + unit * (new_mean - mean)
    scatter = moments.scatter.reshape(len(mean), -1, 1) * scale
    return (Moments(moments.count, moved.reshape(moments.mean.shape), scatter.reshape(moments.scatter.shape)),)


def class_shares(log_p: Float[Tensor, "b k"], prior: Float[Tensor, "k"]) -> Float[Tensor, "k"]:
    """The most likely class shares of a batch, from predictions that assume the prior's (Saerens et al., 2002).

    EM: q_i ∝ p_i π / π°, then π = mean of q, with a few images of the prior.

    >>> half = torch.tensor([0.5, 0.5]).double()
    >>> class_shares(torch.tensor([[0.8, 0.2]] * 10).log(), half).round(decimals=2)
    tensor([0.9900, 0.0100], dtype=torch.float64)
    """
    p, shares = to_float64(log_p, "cpu").exp(), prior
    for _ in range(STEPS):
        q = p * (shares / prior)
        shares = ((q / q.sum(-1, keepdim=True)).mean(0) + PRIOR_SHARE * prior) / (1 + PRIOR_SHARE)
    return shares


def extrapolated(
    target: Float[Tensor, "k"], found: Float[Tensor, "k"], prior: Float[Tensor, "k"], factor: float
) -> Float[Tensor, "k"]:
    """Class shares of a batch that was matched to the shares `target`, and whose predictions have shares `found`.

    Matching to wrong shares hides most of the difference at every site, so what is left of it in the predictions is
    multiplied: π = target + factor · (found − target), projected onto the simplex.

    >>> two = torch.tensor([0.5, 0.5]).double()
    >>> extrapolated(two, torch.tensor([0.6, 0.4]).double(), two, 4.0).round(decimals=2)
    tensor([0.9000, 0.1000], dtype=torch.float64)
    """
    wanted = target + factor * (found - target)
    ordered = wanted.sort(descending=True).values
    excess = (ordered.cumsum(0) - 1) / torch.arange(1, len(ordered) + 1)
    last = int((ordered > excess).sum()) - 1
    return ((wanted - excess[last]).clamp_min(0) + PRIOR_SHARE * prior) / (1 + PRIOR_SHARE)


def evidence(log_p: Float[Tensor, "b k"], shares: Float[Tensor, "k"], prior: Float[Tensor, "k"]) -> float:
    """How much likelier an image is under these shares than under the prior's: the mean of log Σ p π / π°, in nats.

    For the most likely shares chance gives (K − 1) / 2n; where predictions are certain it is KL(shares ‖ prior).

    >>> all_one, half = torch.tensor([1.0, 0.0]).double(), torch.tensor([0.5, 0.5]).double()
    >>> evidence(torch.tensor([[1.0, 0.0]] * 4).log(), all_one, half)
    0.69...
    """
    return (to_float64(log_p, "cpu").exp() @ (shares / prior)).log().mean().item()


def divergence(shares: Float[Tensor, "k"], prior: Float[Tensor, "k"]) -> float:
    """KL(π ‖ π°) in nats."""
    return (shares * (shares / prior).log()).sum().item()


def moment_distance(mean: Float[Tensor, "b c"], variance: Float[Tensor, "b c"], train: Moments) -> float:
    """How far the channels of a batch are from training: the mean of KL(test ‖ training) of Gaussians.

    The batch is given by the moments of its images, the training data by those of its channels.
    """
    target, centre = train.covariance[:, 0, 0], train.mean[:, 0, 0]
    own = to_float64(mean, "cpu")
    spread = (to_float64(variance, "cpu") + own.square()).mean(0) - own.mean(0).square()
    floor = TINY * target.mean() + torch.finfo(target.dtype).tiny
    scale = (spread + floor) / (target + floor)
    shift = (own.mean(0) - centre).square() / (target + floor)
    return ((scale - 1 - scale.log() + shift) / 2).mean().item()
