"""Metrics: probabilities and labels in, numbers out."""

from shiftmatch.metrics.detection import (
    aurc,
    auroc,
    familiarity,
    fpr95,
    maximum_probability,
    risk_at_coverage,
    risk_coverage,
)
from shiftmatch.metrics.registry import METRICS, Metric
from shiftmatch.metrics.scoring import (
    accuracy,
    brier,
    calibration_error,
    calibration_error_equal_count,
    confidence,
    log_likelihood,
    mean_corruption_error,
    reliability,
)
from shiftmatch.metrics.uncertainty import bootstrap_interval, paired_difference, wilson_interval

__all__ = [
    "METRICS",
    "Metric",
    "accuracy",
    "aurc",
    "auroc",
    "bootstrap_interval",
    "brier",
    "calibration_error",
    "calibration_error_equal_count",
    "confidence",
    "familiarity",
    "fpr95",
    "log_likelihood",
    "maximum_probability",
    "mean_corruption_error",
    "paired_difference",
    "reliability",
    "risk_at_coverage",
    "risk_coverage",
    "wilson_interval",
]
