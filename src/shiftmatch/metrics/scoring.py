"""How good predictions are: accuracy, log-likelihood, Brier score; and how sure they are."""

import torch
from torch.nn.functional import one_hot

from shiftmatch.metrics.checking import Labels, Probabilities, checked, confidence_and_hits

SMALLEST = torch.finfo(torch.float64).eps
"""Probabilities count as at least this, so that one label that was held impossible leaves the mean finite."""


def accuracy(probabilities: Probabilities, labels: Labels) -> float:
    """The share of images whose likeliest class is the label.

    >>> accuracy(torch.tensor([[0.25, 0.75], [0.5, 0.5]]), torch.tensor([1, 1]))
    0.5
    """
    _, hits = confidence_and_hits(checked(probabilities, labels), labels)
    return hits.mean().item()


def log_likelihood(probabilities: Probabilities, labels: Labels) -> float:
    """The mean of log p(label), in nats per image.

    >>> round(log_likelihood(torch.tensor([[0.25, 0.75]]), torch.tensor([1])), 4)
    -0.2877
    """
    of_label = checked(probabilities, labels).gather(1, labels[:, None])
    return of_label.clamp_min(SMALLEST).log().mean().item()


def brier(probabilities: Probabilities, labels: Labels) -> float:
    """The mean over images of Σ_k (p_k − [k is the label])², from 0 to 2.

    >>> brier(torch.tensor([[0.25, 0.75]]), torch.tensor([1]))
    0.125
    """
    p = checked(probabilities, labels)
    return (p - one_hot(labels, p.shape[1])).square().sum(-1).mean().item()


def confidence(probabilities: Probabilities, labels: Labels) -> float:
    """The mean of the largest probability of each image; equal to the accuracy if the network knows itself.

    >>> confidence(torch.tensor([[0.25, 0.75]]), torch.tensor([0]))
    0.75
    """
    return checked(probabilities, labels).amax(-1).mean().item()
