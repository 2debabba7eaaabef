"""Out-of-distribution detection and selective prediction: scores of images, AUROC, FPR95, risk and coverage."""

import torch
from jaxtyping import Float
from torch import Tensor

from shiftmatch.errors import InputError
from shiftmatch.metrics.scoring import PerImage, confidence_and_hits

Scores = Float[Tensor, "n"]
Others = Float[Tensor, "m"]

RECALL = 0.95
"""The share of known images that are to be kept when the others are counted."""

STEPS = 10
"""Points of the risk-coverage curve as a table."""


def maximum_probability(probabilities: Float[Tensor, "n k"]) -> Scores:
    """The usual score: the largest probability of each image.

    Args:
        probabilities: one row for each image, one column for each class; rows sum to 1.

    >>> maximum_probability(torch.tensor([[0.25, 0.75]]))
    tensor([0.7500])
    """
    return probabilities.amax(-1)


def familiarity(distance: Scores, *confidences: Scores) -> Scores:
    """A score that also asks how far images are from training, before any matching: √(p p') / distance.

    Args:
        distance: `image_distances` of a diagnosis.
        *confidences: the largest probabilities of a network, before and after matching, if there is both.

    >>> familiarity(torch.tensor([1.0, 3.0]), torch.tensor([0.9, 0.9]))
    tensor([0.9000, 0.3000])
    """
    return torch.stack(confidences).log().mean(0).exp() / distance


def auroc(inside: Scores, outside: Others) -> float:
    """The probability that a known image scores higher than one of another kind; ties count one half.

    Args:
        inside: scores of images of the kind that the network knows; higher means surer.
        outside: scores of images of another kind.

    >>> auroc(torch.tensor([0.9, 0.8]), torch.tensor([0.8, 0.1]))
    0.875
    """
    known, others = _checked(inside, "inside"), _checked(outside, "outside").sort().values
    below, upto = (torch.searchsorted(others, known, right=right).double() for right in (False, True))
    return ((below + upto) / 2).mean().item() / len(others)


def fpr95(inside: Scores, outside: Others) -> float:
    """The share of other images that pass the highest threshold which 95 % of the known images pass.

    Args:
        inside: scores of images of the kind that the network knows; higher means surer.
        outside: scores of images of another kind.

    >>> fpr95(torch.tensor([0.9, 0.8]), torch.tensor([0.8, 0.1]))
    0.5
    """
    known, others = _checked(inside, "inside"), _checked(outside, "outside")
    falling = known.sort(descending=True).values
    recall = torch.arange(1, len(known) + 1, dtype=torch.float64) / len(known)
    threshold = falling[recall >= RECALL][0]
    return (others >= threshold).double().mean().item()


def risk_at_coverage(probabilities: Tensor, labels: Tensor) -> Float[Tensor, "n"]:
    """At i: the share of errors among the i+1 images with the largest probabilities.

    Images that are equally sure come in any order; the risk is the mean over all orders.

    Args:
        probabilities: one row for each image, one column for each class; rows sum to 1.
        labels: the right class of each image.

    >>> risk_at_coverage(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([0, 0]))
    tensor([0.0000, 0.5000], dtype=torch.float64)
    """
    return _risk(*confidence_and_hits(probabilities, labels))


def risk_coverage(probabilities: Tensor, labels: Tensor, *, steps: int = STEPS) -> dict[str, float]:
    """The curve as a table: the risk when so many per cent of the images are predicted, the surest first.

    Args:
        probabilities: one row for each image, one column for each class; rows sum to 1.
        labels: the right class of each image.
        steps: points of the curve.

    >>> risk_coverage(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([0, 0]), steps=2)
    {'050': 0.0, '100': 0.5}
    """
    risk = risk_at_coverage(probabilities, labels)
    kept = {100 * step // steps: -(-len(risk) * step // steps) for step in range(1, steps + 1)}
    return {f"{percent:03d}": risk[count - 1].item() for percent, count in kept.items()}


def aurc(probabilities: Tensor, labels: Tensor) -> float:
    """The area under the risk-coverage curve: the mean risk over all coverages; lower is better.

    Args:
        probabilities: one row for each image, one column for each class; rows sum to 1.
        labels: the right class of each image.

    >>> aurc(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([0, 0]))
    0.25
    """
    return mean_risk(*confidence_and_hits(probabilities, labels))


def mean_risk(confidence: PerImage, hits: PerImage) -> float:
    """`aurc` from what it depends on."""
    return _risk(confidence, hits).mean().item()


def _risk(confidence: PerImage, hits: PerImage) -> Float[Tensor, "n"]:
    _, group, sizes = (-confidence).unique(sorted=True, return_inverse=True, return_counts=True)
    errors = torch.zeros(len(sizes), dtype=hits.dtype).index_add_(0, group, 1 - hits) / sizes
    kept = torch.arange(1, len(hits) + 1, dtype=hits.dtype)
    risk: Tensor = errors.repeat_interleave(sizes).cumsum(0) / kept
    return risk


def _checked(scores: Float[Tensor, "n"], what: str) -> Float[Tensor, "n"]:
    """Scores in double precision, if there are any and all are numbers."""
    if not len(scores):
        raise InputError(f"There are no scores of images {what}; pass at least one.")
    if scores.isnan().any():
        raise InputError(f"{int(scores.isnan().sum())} of {len(scores)} scores of images {what} are NaN.")
    return scores.double()
