"""Figures 4, 7 and 11 of the paper with Tables 2 to 4: what batchnorm, matching and its variants gain."""

from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from paper.cifar import BATCHNORM, OURS, PAPER, PLAIN, ROWS, SPECTRUM, CifarSetting, Combination
from paper.claims import Claim, beats, beside, gain, has
from paper.plots import grouped_bars
from paper.run import Figures, Root
from paper.training import ENSEMBLE, HMC, SGD
from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.figures import severity_curves

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

INPUT, AFTER, FULL, JOINT, ONE_SHOT = VARIANTS = (
    "ShiftMatch: input only",
    "ShiftMatch: after activations",
    "ShiftMatch: SpatialFull",
    "ShiftMatch: ChannelJoint",
    "ShiftMatch: Kronecker",
)
"""The last, the Kronecker equation of the paper taken at its word, is no variant of the paper's figure."""


@dataclass(frozen=True)
class Gains:
    """Three kinds of networks, each plain, with test-time batchnorm, matched as published, and matched our ways."""

    setting: CifarSetting = field(default_factory=CifarSetting)
    methods: tuple[str, ...] = (*METHODS, *OURS)

    def run(self, data: Root, folder: Path) -> Scores:
        """Score all combinations."""
        return self.setting.evaluate([Combination(*pair) for pair in product(KINDS, self.methods)], data, folder)

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
        every = [Combination(*pair) for pair in product(KINDS, self.methods)]
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


@dataclass(frozen=True)
class Ablation:
    """The networks of one kind, plain, matched, and matched at other places and with other structures."""

    setting: CifarSetting = field(default_factory=CifarSetting)
    kind: str = HMC
    variants: tuple[str, ...] = VARIANTS

    def run(self, data: Root, folder: Path) -> Scores:
        """Score them all."""
        every = [Combination(self.kind, name) for name in (PLAIN, PAPER, ROWS, SPECTRUM, *self.variants)]
        return self.setting.evaluate(every, data, folder)

    def plot(self, scores: Scores) -> Figures:
        """Lines against severity."""
        return {"accuracy": severity_curves(scores, baseline=self.kind, method=self._name(ROWS))}

    def compare(self, scores: Scores) -> list[Claim]:
        """All published variants are above the plain networks and below the default; input only is the lowest.

        They differ from rows and columns in one thing each, so that is what they are compared with.
        """
        published = (INPUT, AFTER, FULL, JOINT)
        above = [beats(scores, self._name(name), self.kind) for name in published]
        below = [beats(scores, self._name(ROWS), self._name(name)) for name in published]
        lowest = [beats(scores, self._name(name), self._name(INPUT)) for name in (AFTER, FULL, JOINT)]
        return [found for part in (*above, *below, *lowest) for found in part]

    def _name(self, method: str) -> str:
        return Combination(self.kind, method).name


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
