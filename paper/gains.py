"""Figures 4 and 11 of the paper with Tables 2 to 4: what batchnorm and matching gain for SGD, ensembles and HMC."""

from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from paper.cifar import BATCHNORM, OURS, PAPER, PLAIN, SPECTRUM, CifarSetting, Combination, known
from paper.claims import Claim, beats, beside, gain, has
from paper.plots import grouped_bars
from paper.run import Figures, Root
from paper.training import ENSEMBLE, HMC, SGD
from shiftmatch.evaluation.scores import Scores

KINDS, METHODS = (SGD, ENSEMBLE, HMC), (PLAIN, BATCHNORM, PAPER)
SEVERITIES = (1, 2, 3, 4, 5)

PUBLISHED = {
    (PAPER, PLAIN): {
        SGD: (2.8, 5.1, 7.7, 10.4, 13.1),
        ENSEMBLE: (1.8, 3.7, 6.2, 9.1, 12.4),
        HMC: (5.2, 8.9, 12.8, 18.3, 24.6),
    },
    (BATCHNORM, PLAIN): {
        SGD: (1.3, 2.6, 4.2, 5.8, 8.2),
        ENSEMBLE: (1.4, 2.8, 4.9, 7.2, 10.6),
        HMC: (4.5, 7.6, 10.9, 15.8, 21.9),
    },
    (PAPER, BATCHNORM): {
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
    """Three kinds of networks, each plain, with test-time batchnorm, matched as published, and matched our ways."""

    setting: CifarSetting = field(default_factory=CifarSetting)
    methods: tuple[str, ...] = (*METHODS, *OURS)

    def run(self, data: Root, folder: Path) -> Scores:
        """Score all combinations."""
        every = [Combination(*pair) for pair in product(KINDS, known(self.methods))]
        return self.setting.evaluate(every, data, folder)

    def plot(self, scores: Scores) -> Figures:
        """Bars in groups, for accuracy and log-likelihood."""
        groups = [[Combination(kind, method).name for method in METHODS] for kind in KINDS if has(scores, kind)]
        return {metric: grouped_bars(scores, groups, metric) for metric in ("accuracy", "log_likelihood")}

    def compare(self, scores: Scores) -> list[Claim]:
        """The order of the methods, the three tables, and how our ways compare with the published one."""
        own = [(SPECTRUM, PLAIN), *((ours, PAPER) for ours in OURS)]
        pairs = dict.fromkeys(PUBLISHED, "yes") | dict.fromkeys(own, "ours")
        order = [
            found._replace(published=pairs[better, worse])
            for kind, (better, worse) in product(KINDS, pairs)
            for found in beats(scores, Combination(kind, better).name, Combination(kind, worse).name)
        ]
        return [*order, *(cell for pair in PUBLISHED for cell in table(scores, *pair))]


@dataclass(frozen=True)
class Mixture:
    """The combinations of Figure 4, on batches of which `share` is clean.

    Each image comes once, clean or corrupted; in the paper each comes twice, once as either.
    """

    setting: CifarSetting = field(default_factory=CifarSetting)
    share: float = 0.5
    methods: tuple[str, ...] = (*METHODS, *OURS)

    def run(self, data: Root, folder: Path) -> Scores:
        """Score all; the accuracy is that of both halves together."""
        every = [Combination(*pair) for pair in product(KINDS, known(self.methods))]
        return self.setting.evaluate(every, data, folder, stream=f"mixture:{self.share}")

    def plot(self, scores: Scores) -> Figures:
        """Bars in groups, as in Figure 4."""
        return Gains(self.setting).plot(scores)

    def compare(self, scores: Scores) -> list[Claim]:
        """Batchnorm still gains, and matching more; but not for the log-likelihood of SGD."""
        return [
            found
            for kind, metric in product(KINDS, ("accuracy", "log_likelihood"))
            if (kind, metric) != (SGD, "log_likelihood")
            for better, worse in ((BATCHNORM, PLAIN), (PAPER, BATCHNORM))
            for found in beats(scores, Combination(kind, better).name, Combination(kind, worse).name, metric=metric)
        ]


def table(scores: Scores, better: str, worse: str) -> list[Claim]:
    """What one method gains over another, beside the published table."""
    severities = [severity for severity in SEVERITIES if severity in scores.values("severity")]
    return [
        beside(
            f"{kind}: {better} over {worse}, severity {severity}",
            gain(scores, Combination(kind, better).name, Combination(kind, worse).name, severity),
            PUBLISHED[better, worse][kind][severity - 1] / 100,
            within=WITHIN / 100,
            scale=100,
            unit=" points",
        )
        for kind in KINDS
        if has(scores, *(Combination(kind, method).name for method in (better, worse)))
        for severity in severities
    ]
