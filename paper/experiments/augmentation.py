"""The appendix's networks with BatchNorm and augmentation, and how matching and test-time batchnorm go together."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from matplotlib.figure import Figure

from paper.experiments.claims import beats, holds, mean
from paper.experiments.experiment import Comparison, Figures, Root
from paper.experiments.released import ReleasedSetting
from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.figures import gain_bars, heat_map, severity_curves

METRICS = ("accuracy", "log_likelihood", "ece")
PLAIN, BATCHNORM, MATCHED, BOTH, PAPER = (
    "plain",
    "batchnorm",
    "ShiftMatch",
    "ShiftMatch + batchnorm",
    "ShiftMatch (paper)",
)

EVERY = (
    PLAIN,
    BATCHNORM,
    "batchnorm-prior",
    "batchnorm-running",
    "channel moments",
    "CORAL",
    "Tent",
    MATCHED,
    PAPER,
)


@dataclass(frozen=True)
class Augmentation:
    """Released networks, trained with augmentation and BatchNorm: the methods of the paper and their neighbours."""

    setting: ReleasedSetting

    def run(self, data: Root, folder: Path) -> Scores:
        """Score the methods on each network."""
        return self.setting.evaluate(METRICS, data, folder)

    def plot(self, scores: Scores) -> Figures:
        """For each network, lines against severity, a heat map and the gain under each corruption."""
        drawn: dict[str, Callable[[Scores], Figure]] = {
            "severity": severity_curves,
            "heat-map": heat_map,
            "gains": gain_bars,
        }
        return {
            f"{name.split()[0]}-{kind}": draw(scores.where(data=name))
            for name in scores.values("data")
            for kind, draw in drawn.items()
        }

    def compare(self, scores: Scores) -> list[Comparison]:
        """With BatchNorm and augmentation too, batchnorm on the batch gains, and matching (as published) more."""
        pairs = ((BATCHNORM, PLAIN), (PAPER, BATCHNORM), (MATCHED, BATCHNORM))
        sets = [scores.where(data=name) for name in scores.values("data")]
        return [
            found._replace(what=f"{part[0].data}: {found.what}")
            for part in sets
            for found in chain(*(beats(part, *pair) for pair in pairs))
        ]


@dataclass(frozen=True)
class WithBatchNorm:
    """Matching with test-time batchnorm on and off, and each without the other."""

    setting: ReleasedSetting

    def run(self, data: Root, folder: Path) -> Scores:
        """Score the four combinations."""
        return self.setting.evaluate(METRICS, data, folder)

    def plot(self, scores: Scores) -> Figures:
        """Lines against severity, for each network."""
        return {name.split()[0]: severity_curves(scores.where(data=name)) for name in scores.values("data")}

    def compare(self, scores: Scores) -> list[Comparison]:
        """In the paper both together are slightly better than matching alone."""
        found = []
        for name in scores.values("data"):
            part = scores.where(data=name)
            gain = mean(part, BOTH) - mean(part, MATCHED)
            what = f"{name}: batchnorm on is slightly better than off, with matching"
            found.append(holds(what, f"{100 * gain:+.1f} points", agrees=gain > 0))
            found += beats(part, MATCHED, BATCHNORM)
        return found


COMBINATIONS = (PLAIN, BATCHNORM, MATCHED, BOTH)
