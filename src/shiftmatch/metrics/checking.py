"""What every metric asks of its arguments, said in words where it does not hold."""

from jaxtyping import Float, Int64
from torch import Tensor

from shiftmatch.errors import InputError

Probabilities = Float[Tensor, "n k"]
Labels = Int64[Tensor, "n"]

ROUNDING = 1e-3
"""How far the probabilities of an image may be from a sum of 1: half precision has three digits."""


def checked(probabilities: Probabilities, labels: Labels) -> Float[Tensor, "n k"]:
    """The probabilities in double precision, if they are such and the labels are classes of theirs.

    >>> import torch
    >>> checked(torch.tensor([[0.25, 0.75]]), torch.tensor([1])).dtype
    torch.float64
    """
    p = probabilities.double()
    if not len(p):
        raise InputError("There are no images to score; pass the probabilities of at least one.")
    if p.isnan().any():
        raise InputError(f"{int(p.isnan().any(-1).sum())} of {len(p)} images have probabilities that are NaN.")
    if p.min() < 0 or (p.sum(-1) - 1).abs().max() > ROUNDING:
        raise InputError(
            "The numbers of an image are not probabilities: expected none below 0 and a sum of 1. Logits become "
            "probabilities with logits.softmax(-1), or with shiftmatch.average([network])(images)."
        )
    if labels.min() < 0 or labels.max() >= p.shape[1]:
        raise InputError(
            f"There are labels from {int(labels.min())} to {int(labels.max())}, but probabilities of {p.shape[1]} "
            "classes, which are counted from 0."
        )
    return p


def checked_scores(scores: Float[Tensor, "n"], what: str) -> Float[Tensor, "n"]:
    """Scores in double precision, if there are any and all are numbers.

    >>> import torch
    >>> checked_scores(torch.ones(2), "inside").dtype
    torch.float64
    """
    if not len(scores):
        raise InputError(f"There are no scores of images {what}; pass at least one.")
    if scores.isnan().any():
        raise InputError(f"{int(scores.isnan().sum())} of {len(scores)} scores of images {what} are NaN.")
    return scores.double()


def confidence_and_hits(p: Float[Tensor, "n k"], labels: Labels) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]]:
    """The largest probability of each image, and 1 where its class is the label, else 0.

    >>> import torch
    >>> confidence_and_hits(torch.tensor([[0.25, 0.75]]), torch.tensor([1]))
    (tensor([0.7500]), tensor([1.]))
    """
    confidence, predicted = p.max(-1)
    return confidence, (predicted == labels).to(p.dtype)
