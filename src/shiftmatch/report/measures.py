"""What the metrics are called, which way is better, and how their values are written."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite, isnan

MINUS, INFINITY = "\u2212", "\u221e"
PERCENT = "\u00a0%"


@dataclass(frozen=True)
class Measure:
    """A metric as readers meet it; `better` is 1 if more is better, -1 if less is, 0 if neither.

    >>> measure("accuracy").show(0.7928), measure("brier").show(0.31), measure("accuracy").show_gain(-0.003)
    ('79.3\\xa0%', '0.310', '−0.3 points')
    """

    name: str
    title: str
    better: int = 0
    percent: bool = False

    @property
    def unit(self) -> str:
        return "%" if self.percent else ""

    @property
    def scale(self) -> int:
        """What values are multiplied by to have the unit in which they are shown."""
        return 100 if self.percent else 1

    @property
    def digits(self) -> int:
        return 1 if self.percent else 3

    def number(self, value: float | None, *, sign: bool = False) -> str:
        """The value without its unit; a dash where there is none."""
        if value is None or isnan(value):
            return "\u2013"
        scaled, digits = self.scale * value, self.digits
        if 0 < abs(scaled) < 10.0**-digits:
            digits += 1  # a small difference is not none
        return _typeset(f"{scaled:{'+' if sign else ''}.{digits}f}")

    def show(self, value: float | None) -> str:
        """The value with its unit."""
        return self.number(value) + (PERCENT if self.percent else "")

    def show_gain(self, gain: float) -> str:
        """A difference, with its sign; percentages differ by points."""
        return self.number(gain, sign=True) + (" points" if self.percent else "")


def _typeset(number: str) -> str:
    return number.replace("-", MINUS).replace("inf", INFINITY)


_MEASURES = {
    "accuracy": Measure("accuracy", "accuracy", 1, percent=True),
    "log_likelihood": Measure("log_likelihood", "log-likelihood", 1),
    "brier": Measure("brier", "Brier score", -1),
    "ece": Measure("ece", "calibration error", -1, percent=True),
    "ece_equal_count": Measure("ece_equal_count", "calibration error, bins of equal count", -1, percent=True),
    "confidence": Measure("confidence", "mean confidence", 0, percent=True),
    "auroc": Measure("auroc", "AUROC of telling other data apart", 1, percent=True),
    "fpr95": Measure("fpr95", "false alarms at 95\u00a0% recall", -1, percent=True),
    "aurc": Measure("aurc", "area under risk and coverage", -1),
    "mce": Measure("mce", "mean corruption error", -1, percent=True),
}


def measure(metric: str) -> Measure:
    """How a metric is shown; of one that is not known here, no value is called better than another."""
    return _MEASURES.get(metric, Measure(metric, readable(metric)))


def readable(name: str) -> str:
    """A name as words.

    >>> readable("gaussian_noise")
    'gaussian noise'
    """
    return name.replace("_", " ")


def span(values: Iterable[float | None]) -> tuple[float, float]:
    """The smallest and the largest of the values that are numbers."""
    known = [value for value in values if value is not None and isfinite(value)]
    return (min(known), max(known)) if known else (0.0, 1.0)
