"""Whether predictions are right as often as they say: calibration errors and the reliability curve."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from shiftmatch.metrics.scoring import PerImage, confidence_and_hits

EQUAL_WIDTH, EQUAL_COUNT = 15, 20
"""Bins in common use, and those of the published code."""


def calibration_error(probabilities: Tensor, labels: Tensor, *, bins: int = EQUAL_WIDTH) -> float:
    """Expected calibration error: Σ_bins |Σ (confidence − hit)| / n, bins ((i−1)/m, i/m] of equal width.

    >>> calibration_error(torch.tensor([[0.25, 0.75], [0.3, 0.7]], dtype=torch.float64), torch.tensor([1, 0]))
    0.475
    """
    return equal_width_error(*confidence_and_hits(probabilities, labels), bins=bins)


def calibration_error_equal_count(probabilities: Tensor, labels: Tensor, *, bins: int = EQUAL_COUNT) -> float:
    """Expected calibration error with the bins of the published code: edges at every ⌈n/bins⌉-th of the confidences.

    An image that lies on an edge is in no bin, as there; so ties may leave many out, and all of them if all are equal.

    >>> calibration_error_equal_count(torch.tensor([[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]]), torch.ones(3).long(), bins=1)
    0.0666...
    """
    return equal_count_error(*confidence_and_hits(probabilities, labels), bins=bins)


def reliability(probabilities: Tensor, labels: Tensor, *, bins: int = EQUAL_WIDTH) -> dict[str, float]:
    """The reliability curve: for each bin of equal width the share of images in it, their mean confidence and accuracy.

    Keys are `07/share`, `07/confidence`, `07/accuracy`; a bin without images has its share only.

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
