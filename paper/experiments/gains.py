"""Figure 4 of the paper and its three tables: what batchnorm and matching gain for SGD, ensembles and HMC."""

from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from paper.experiments.cifar import BATCHNORM, MATCHED, PLAIN, CifarSetting, Combination
from paper.experiments.claims import beats, beside, has, mean
from paper.experiments.experiment import Comparison, Figures, Root
from paper.experiments.networks import ENSEMBLE, HMC, SGD
from paper.experiments.panels import grouped_bars
from shiftmatch.evaluation.scores import Scores

KINDS, METHODS = (SGD, ENSEMBLE, HMC), (PLAIN, BATCHNORM, MATCHED)
SEVERITIES = (1, 2, 3, 4, 5)

PUBLISHED = {
    (MATCHED, PLAIN): {
        SGD: (2.8, 5.1, 7.7, 10.4, 13.1),
        ENSEMBLE: (1.8, 3.7, 6.2, 9.1, 12.4),
        HMC: (5.2, 8.9, 12.8, 18.3, 24.6),
    },
    (BATCHNORM, PLAIN): {
        SGD: (1.3, 2.6, 4.2, 5.8, 8.2),
        ENSEMBLE: (1.4, 2.8, 4.9, 7.2, 10.6),
        HMC: (4.5, 7.6, 10.9, 15.8, 21.9),
    },
    (MATCHED, BATCHNORM): {
        SGD: (1.5, 2.5, 3.5, 4.6, 4.9),
        ENSEMBLE: (0.4, 0.9, 1.3, 1.9, 1.8),
        HMC: (0.7, 1.3, 1.9, 2.5, 2.7),
    },
}
"""Accuracy gained, in points, by the first method over the second, at severities 1 to 5."""

WITHIN = 2.0
"""Points that a gain may differ by and still count as the same."""


@dataclass(frozen=True)
class Gains:
    """Three kinds of networks, each plain, with test-time batchnorm, and matched."""

    setting: CifarSetting = field(default_factory=CifarSetting)

    def run(self, data: Root, folder: Path) -> Scores:
        """Score all nine combinations."""
        return self.setting.evaluate([Combination(*pair) for pair in product(KINDS, METHODS)], data, folder)

    def plot(self, scores: Scores) -> Figures:
        """Bars in groups, for accuracy and log-likelihood."""
        groups = [[Combination(kind, method).name for method in METHODS] for kind in KINDS if has(scores, kind)]
        return {metric: grouped_bars(scores, groups, metric) for metric in ("accuracy", "log_likelihood")}

    def compare(self, scores: Scores) -> list[Comparison]:
        """The three tables, and the order of the methods."""
        order = [
            found
            for kind, (better, worse) in product(KINDS, PUBLISHED)
            for found in beats(scores, Combination(kind, better).name, Combination(kind, worse).name)
        ]
        return [*order, *(cell for pair in PUBLISHED for cell in table(scores, *pair))]


def table(scores: Scores, better: str, worse: str) -> list[Comparison]:
    """What one method gains over another, beside the published table."""
    severities = [severity for severity in SEVERITIES if severity in scores.values("severity")]
    return [
        beside(
            f"{kind}: {better} over {worse}, severity {severity}",
            100 * _gain(scores, kind, better, worse, severity),
            PUBLISHED[better, worse][kind][severity - 1],
            within=WITHIN,
            unit=" points",
        )
        for kind in KINDS
        if has(scores, kind)
        for severity in severities
    ]


def _gain(scores: Scores, kind: str, better: str, worse: str, severity: int) -> float:
    high, low = (mean(scores, Combination(kind, method).name, severity) for method in (better, worse))
    return high - low
