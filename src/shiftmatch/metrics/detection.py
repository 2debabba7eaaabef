"""Telling images of another kind by a score that is higher for the kind the network knows."""

import torch
from jaxtyping import Float
from torch import Tensor

from shiftmatch.metrics.checking import checked_scores

Scores = Float[Tensor, "n"]
Others = Float[Tensor, "m"]

RECALL = 0.95
"""The share of known images that are to be kept when the others are counted."""


def maximum_probability(probabilities: Float[Tensor, "n k"]) -> Scores:
    """The usual score: the largest probability of each image.

    >>> maximum_probability(torch.tensor([[0.25, 0.75]]))
    tensor([0.7500])
    """
    return probabilities.amax(-1)


def auroc(inside: Scores, outside: Others) -> float:
    """The probability that a known image scores higher than one of another kind; ties count one half.

    >>> auroc(torch.tensor([0.9, 0.8]), torch.tensor([0.8, 0.1]))
    0.875
    """
    known, others = checked_scores(inside, "inside"), checked_scores(outside, "outside").sort().values
    below, upto = (torch.searchsorted(others, known, right=right).double() for right in (False, True))
    return ((below + upto) / 2).mean().item() / len(others)


def fpr95(inside: Scores, outside: Others) -> float:
    """The share of other images that pass the highest threshold which 95 % of the known images pass.

    >>> fpr95(torch.tensor([0.9, 0.8]), torch.tensor([0.8, 0.1]))
    0.5
    """
    known, others = checked_scores(inside, "inside"), checked_scores(outside, "outside")
    falling = known.sort(descending=True).values
    recall = torch.arange(1, len(known) + 1, dtype=torch.float64) / len(known)
    threshold = falling[recall >= RECALL][0]
    return (others >= threshold).double().mean().item()
