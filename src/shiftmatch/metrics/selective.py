"""Predicting only where the network is sure: risk against coverage."""

import torch
from jaxtyping import Float
from torch import Tensor

from shiftmatch.metrics.checking import Labels, Probabilities, checked, confidence_and_hits

STEPS = 10
"""Points of the curve as a table."""


def risk_at_coverage(probabilities: Probabilities, labels: Labels) -> Float[Tensor, "n"]:
    """At i: the share of errors among the i+1 images with the largest probabilities.

    Images that are equally sure come in any order; the risk is the mean over all orders.

    >>> risk_at_coverage(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([0, 0]))
    tensor([0.0000, 0.5000], dtype=torch.float64)
    """
    confidence, hits = confidence_and_hits(checked(probabilities, labels), labels)
    _, group, sizes = (-confidence).unique(sorted=True, return_inverse=True, return_counts=True)
    errors = torch.zeros(len(sizes), dtype=hits.dtype).index_add_(0, group, 1 - hits) / sizes
    kept = torch.arange(1, len(hits) + 1, dtype=hits.dtype)
    risk: Tensor = errors.repeat_interleave(sizes).cumsum(0) / kept
    return risk


def risk_coverage(probabilities: Probabilities, labels: Labels, *, steps: int = STEPS) -> dict[str, float]:
    """The curve as a table: the risk when so many per cent of the images are predicted, the surest first.

    >>> risk_coverage(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([0, 0]), steps=2)
    {'050': 0.0, '100': 0.5}
    """
    risk = risk_at_coverage(probabilities, labels)
    kept = {100 * step // steps: -(-len(risk) * step // steps) for step in range(1, steps + 1)}
    return {f"{percent:03d}": risk[count - 1].item() for percent, count in kept.items()}


def aurc(probabilities: Probabilities, labels: Labels) -> float:
    """The area under the risk-coverage curve: the mean risk over all coverages; lower is better.

    >>> aurc(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([0, 0]))
    0.25
    """
    return risk_at_coverage(probabilities, labels).mean().item()
