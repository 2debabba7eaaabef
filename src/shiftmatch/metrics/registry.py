"""Metrics by the names that tables and the command line give them."""

from collections.abc import Callable
from typing import TypeAlias

from shiftmatch.errors import InputError
from shiftmatch.metrics.calibration import calibration_error, calibration_error_equal_count, reliability
from shiftmatch.metrics.checking import Labels, Probabilities
from shiftmatch.metrics.scoring import accuracy, brier, confidence, log_likelihood
from shiftmatch.metrics.selective import aurc, risk_coverage

Metric: TypeAlias = Callable[[Probabilities, Labels], float | dict[str, float]]
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


def numbers(metric: str | Metric, probabilities: Probabilities, labels: Labels) -> dict[str, float]:
    """What a metric gives, by name; several numbers are called `metric/part`.

    >>> import torch
    >>> numbers("accuracy", torch.eye(2), torch.tensor([0, 1]))
    {'accuracy': 1.0}
    """
    name, function = named(metric)
    found = function(probabilities, labels)
    return {f"{name}/{part}": v for part, v in found.items()} if isinstance(found, dict) else {name: float(found)}
