"""How good predictions are: accuracy, log-likelihood, Brier score, how sure they are; mCE; and what can be scored."""

from collections.abc import Mapping, Sequence
from math import fsum, isfinite
from statistics import fmean

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn.functional import one_hot

from shiftmatch.errors import InputError

Probabilities = Float[Tensor, "n k"]
Labels = Int64[Tensor, "n"]
PerImage = Float[Tensor, "n"]

MIN_PROBABILITY = torch.finfo(torch.float64).eps
"""Probabilities count as at least this, so that one label that was held impossible leaves the mean finite."""

ROUNDING = 1e-3
"""How far the probabilities of an image may be from a sum of 1: half precision has three digits."""

Errors = Mapping[str, Sequence[float]]
"""By corruption: the share of errors at each severity."""


def accuracy(probabilities: Tensor, labels: Tensor) -> float:
    """The share of images whose likeliest class is the label.

    Args:
        probabilities: one row for each image, one column for each class; rows sum to 1.
        labels: the right class of each image.

    >>> accuracy(torch.tensor([[0.25, 0.75], [0.5, 0.5]]), torch.tensor([1, 1]))
    0.5
    """
    return hits(*checked(probabilities, labels)).mean().item()


def log_likelihood(probabilities: Tensor, labels: Tensor) -> float:
    """The mean of log p(label), in nats per image.

    Args:
        probabilities: one row for each image, one column for each class; rows sum to 1.
        labels: the right class of each image.

    >>> round(log_likelihood(torch.tensor([[0.25, 0.75]]), torch.tensor([1])), 4)
    -0.2877
    """
    return log_likelihoods(*checked(probabilities, labels)).mean().item()


def brier(probabilities: Tensor, labels: Tensor) -> float:
    """The mean over images of Σ_k (p_k − [k is the label])², from 0 to 2.

    Args:
        probabilities: one row for each image, one column for each class; rows sum to 1.
        labels: the right class of each image.

    >>> brier(torch.tensor([[0.25, 0.75]]), torch.tensor([1]))
    0.125
    """
    return squared_errors(*checked(probabilities, labels)).mean().item()


def confidence(probabilities: Tensor, labels: Tensor) -> float:
    """The mean of the largest probability of each image; equal to the accuracy if the network knows itself.

    Args:
        probabilities: one row for each image, one column for each class; rows sum to 1.
        labels: checked, and not used.

    >>> confidence(torch.tensor([[0.25, 0.75]]), torch.tensor([0]))
    0.75
    """
    return confidences(*checked(probabilities, labels)).mean().item()


def mean_corruption_error(errors: Errors, baseline: Errors) -> float:
    """The mCE of Hendrycks & Dietterich (2019): the mean over corruptions of Σ_s error / Σ_s error of a baseline.

    The sums go over the severities s.

    Args:
        errors: for each corruption, the error at each severity.
        baseline: the same of another network, AlexNet in the publication.

    >>> mean_corruption_error({"fog": [0.2, 0.4], "snow": [0.3]}, {"fog": [0.4, 0.8], "snow": [0.3]})
    0.75
    """
    if not errors or {name: len(row) for name, row in errors.items()} != {n: len(row) for n, row in baseline.items()}:
        raise InputError(
            f"The errors ({', '.join(errors) or 'none'}) and those of the baseline ({', '.join(baseline) or 'none'}) "
            "must be of the same corruptions at the same severities, at least one of each."
        )
    sums = {name: (fsum(row), fsum(baseline[name])) for name, row in errors.items()}
    if bad := [name for name, (ours, theirs) in sums.items() if not isfinite(ours) or not 0 < theirs < float("inf")]:
        raise InputError(f"The errors under {bad[0]} are no numbers to divide: {sums[bad[0]]}.")
    return fmean(ours / theirs for ours, theirs in sums.values())


def hits(p: Probabilities, labels: Labels) -> PerImage:
    """1 where the likeliest class is the label, else 0."""
    return (p.argmax(-1) == labels).to(p.dtype)


def log_likelihoods(p: Probabilities, labels: Labels) -> PerImage:
    """Log p(label) of each image."""
    return p.gather(1, labels[:, None])[:, 0].clamp_min(MIN_PROBABILITY).log()


def squared_errors(p: Probabilities, labels: Labels) -> PerImage:
    """Σ_k (p_k − [k is the label])² of each image."""
    return (p - one_hot(labels, p.shape[1])).square().sum(-1)


def confidences(p: Probabilities, labels: Labels) -> PerImage:
    """The largest probability of each image."""
    return p.amax(-1)


def checked(probabilities: Tensor, labels: Tensor) -> tuple[Probabilities, Labels]:
    """Both in double precision, if these are probabilities and there is a label for each row, a class of theirs.

    >>> checked(torch.tensor([[0.25, 0.75]]), torch.tensor([1]))[0].dtype
    torch.float64
    """
    if probabilities.ndim != 2 or labels.shape != probabilities.shape[:1]:
        raise InputError(
            f"Expected probabilities of shape (images, classes) and one label for each image, of shape (images,); got "
            f"{tuple(probabilities.shape)} and {tuple(labels.shape)}. Labels in a column become a row with "
            "labels.flatten()."
        )
    if labels.is_floating_point() or labels.dtype == torch.bool:
        raise InputError(f"Expected labels that are the numbers of classes; got {labels.dtype}: labels.long()?")
    p, labels = probabilities.double(), labels.long()
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
    return p, labels


def confidence_and_hits(probabilities: Tensor, labels: Tensor) -> tuple[PerImage, PerImage]:
    """The largest probability of each image, and 1 where its class is the label, else 0.

    >>> confidence_and_hits(torch.tensor([[0.25, 0.75]]), torch.tensor([1]))
    (tensor([0.7500], dtype=torch.float64), tensor([1.], dtype=torch.float64))
    """
    given = checked(probabilities, labels)
    return confidences(*given), hits(*given)


EQUAL_WIDTH, EQUAL_COUNT = 15, 20
"""Bins in common use, and those of the published code."""


def calibration_error(probabilities: Tensor, labels: Tensor, *, bins: int = EQUAL_WIDTH) -> float:
    """Expected calibration error: Σ_bins |Σ (confidence − hit)| / n, bins ((i−1)/m, i/m] of equal width.

    Args:
        probabilities: one row for each image, one column for each class; rows sum to 1.
        labels: the right class of each image.
        bins: how many m, of equal width.

    >>> calibration_error(torch.tensor([[0.25, 0.75], [0.3, 0.7]], dtype=torch.float64), torch.tensor([1, 0]))
    0.475
    """
    return equal_width_error(*confidence_and_hits(probabilities, labels), bins=bins)


def calibration_error_equal_count(probabilities: Tensor, labels: Tensor, *, bins: int = EQUAL_COUNT) -> float:
    """Expected calibration error with the bins of the published code: edges at every ⌈n/bins⌉-th of the confidences.

    An image that lies on an edge is in no bin, as there; so ties may leave many out, and all of them if all are equal.

    Args:
        probabilities: one row for each image, one column for each class; rows sum to 1.
        labels: the right class of each image.
        bins: how many, of equal count.

    >>> calibration_error_equal_count(torch.tensor([[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]]), torch.ones(3).long(), bins=1)
    0.0666...
    """
    return equal_count_error(*confidence_and_hits(probabilities, labels), bins=bins)


def reliability(probabilities: Tensor, labels: Tensor, *, bins: int = EQUAL_WIDTH) -> dict[str, float]:
    """The reliability curve: for each bin of equal width the share of images in it, their mean confidence and accuracy.

    Keys are `07/share`, `07/confidence`, `07/accuracy`; a bin without images has its share only.

    Args:
        probabilities: one row for each image, one column for each class; rows sum to 1.
        labels: the right class of each image.
        bins: how many, of equal width.

    >>> reliability(torch.tensor([[0.25, 0.75]]), torch.tensor([1]), bins=2)
    {'00/share': 0.0, '01/share': 1.0, '01/confidence': 0.75, '01/accuracy': 1.0}
    """
    confidence, hits = confidence_and_hits(probabilities, labels)
    index = _equal_width(confidence, bins)
    columns = [_sums(index, values, bins).tolist() for values in (torch.ones_like(hits), confidence, hits)]
    curve = {}
    for number, (count, sure, right) in enumerate(zip(*columns, strict=True)):
        curve[f"{number:02d}/share"] = count / len(labels)
        if count:
            curve |= {f"{number:02d}/confidence": sure / count, f"{number:02d}/accuracy": right / count}
    return curve


def equal_width_error(confidence: PerImage, hits: PerImage, *, bins: int = EQUAL_WIDTH) -> float:
    """`calibration_error` from what it depends on."""
    gaps = _sums(_equal_width(confidence, bins), confidence - hits, bins)
    return gaps.abs().sum().item() / len(hits)


def equal_count_error(confidence: PerImage, hits: PerImage, *, bins: int = EQUAL_COUNT) -> float:
    """`calibration_error_equal_count` from what it depends on."""
    ordered = confidence.sort().values
    step = -(-len(ordered) // bins)
    edges = torch.cat([ordered[::step], ordered[-1:]])
    below, upto = (torch.searchsorted(edges, confidence, right=right) for right in (False, True))
    inside = below == upto
    gaps = _sums(below[inside], (confidence - hits)[inside], len(edges) + 1)
    return gaps.abs().sum().item() / len(hits)


def _equal_width(confidence: Float[Tensor, "n"], bins: int) -> Int64[Tensor, "n"]:
    return torch.searchsorted(torch.linspace(0, 1, bins + 1, dtype=confidence.dtype)[1:-1], confidence)


def _sums(index: Int64[Tensor, "m"], values: Float[Tensor, "m"], bins: int) -> Float[Tensor, "g"]:
    return values.new_zeros(bins).index_add_(0, index, values)
