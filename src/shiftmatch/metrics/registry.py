"""Metrics by the names that tables and the command line give them, each with its standard error."""

from collections.abc import Callable
from math import sqrt
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from shiftmatch.errors import InputError
from shiftmatch.metrics.detection import aurc, mean_risk, risk_coverage
from shiftmatch.metrics.scoring import (
    PerImage,
    accuracy,
    brier,
    calibration_error,
    calibration_error_equal_count,
    checked,
    confidence,
    confidence_and_hits,
    confidences,
    equal_count_error,
    equal_width_error,
    log_likelihood,
    log_likelihoods,
    reliability,
    squared_errors,
)
from shiftmatch.metrics.uncertainty import standard_error

Metric: TypeAlias = Callable[[Tensor, Tensor], float | dict[str, float]]
"""Probabilities and labels in, a number out, or several with a name each."""

METRICS: dict[str, Metric] = {
    "accuracy": accuracy,
    "log_likelihood": log_likelihood,
    "brier": brier,
    "ece": calibration_error,
    "ece_equal_count": calibration_error_equal_count,
    "confidence": confidence,
    "aurc": aurc,
    "reliability": reliability,
    "risk_coverage": risk_coverage,
}
"""Every metric by its name."""

MEANS = {log_likelihood: log_likelihoods, brier: squared_errors, confidence: confidences}
"""Metrics that are means over images, and of what."""

OF_CONFIDENCE: dict[Metric, Callable[[PerImage, PerImage], float]] = {
    calibration_error: equal_width_error,
    calibration_error_equal_count: equal_count_error,
    aurc: mean_risk,
}
"""Metrics that depend on the confidence and on the hits only: their errors are bootstrapped."""

RESAMPLES = 100
"""Of the bootstrap: the standard error is known to 7 %."""


class Measured(NamedTuple):
    """A number and its standard error, None if it is not known."""

    value: float
    stderr: float | None


def named(metric: str | Metric) -> tuple[str, Metric]:
    """A metric with its name; a function of one's own has that of the function.

    >>> named(calibration_error)[0], named("ece")[0]
    ('ece', 'ece')
    """
    if isinstance(metric, str):
        if metric not in METRICS:
            raise InputError(f"There is no metric {metric!r}; choose among {', '.join(METRICS)}.")
        return metric, METRICS[metric]
    known = next((name for name, function in METRICS.items() if function is metric), None)
    return known or str(getattr(metric, "__name__", type(metric).__name__)), metric


def measure(metric: str | Metric, probabilities: Tensor, labels: Tensor) -> dict[str, Measured]:
    """What a metric gives, by name; several numbers are called `metric/part`, and have no standard errors.

    >>> measure("accuracy", torch.eye(2), torch.tensor([0, 1]))
    {'accuracy': Measured(value=1.0, stderr=0.0)}
    """
    name, function = named(metric)
    found = function(probabilities, labels)
    if isinstance(found, dict):
        return {f"{name}/{part}": Measured(value, None) for part, value in found.items()}
    return {name: Measured(float(found), _stderr(function, float(found), probabilities, labels))}


def _stderr(metric: Metric, value: float, probabilities: Tensor, labels: Tensor) -> float | None:
    if metric is accuracy:
        return sqrt(value * (1 - value) / len(labels))
    if metric in MEANS:
        return standard_error(MEANS[metric](*checked(probabilities, labels)))
    if metric in OF_CONFIDENCE and len(labels) > 1:
        sure, hits = confidence_and_hits(probabilities, labels)
        draws = torch.Generator().manual_seed(0)
        index = torch.randint(len(labels), (RESAMPLES, len(labels)), generator=draws)
        return torch.tensor([OF_CONFIDENCE[metric](sure[row], hits[row]) for row in index]).std().item()
    return None
