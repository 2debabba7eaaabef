"""Figures 8 and 9 of the paper: networks with BatchNorm and augmentation, alone and as an ensemble, matched or not."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from paper.cifar import AUTO, BATCHNORM, MOMENTS, PAPER, PLAIN, ROWS, SPECTRUM, ReleasedSetting
from paper.claims import Claim, beats
from paper.run import Figures, Root
from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.figures import gain_bars, heat_map, severity_curves

METRICS = ("accuracy", "log_likelihood", "ece")
BOTH = "ShiftMatch + batchnorm"
"""Rows and columns, with BatchNorm on batch statistics."""

COMBINATIONS = (PLAIN, BATCHNORM, ROWS, BOTH)
FEW = (PLAIN, BATCHNORM, PAPER, ROWS, SPECTRUM, AUTO)
EVERY = (
    *(PLAIN, BATCHNORM, "batchnorm-prior", "batchnorm-running", MOMENTS, "CORAL", "Tent"),
    *(PAPER, ROWS, SPECTRUM, AUTO),
)


@dataclass(frozen=True)
class Augmentation:
    """Released networks, trained with augmentation and BatchNorm: the methods of the paper and their neighbours.

    The paper's ensemble has fifty networks of one depth; the two released ones are of two.
    """

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
            f"{_short(name)}-{kind}": draw(scores.where(data=name))
            for name in scores.values("data")
            for kind, draw in drawn.items()
        }

    def compare(self, scores: Scores) -> list[Claim]:
        """With BatchNorm and augmentation too, batchnorm on the batch gains, matching as published more."""
        pairs = {(BATCHNORM, PLAIN): "yes", (PAPER, BATCHNORM): "yes"}
        pairs |= dict.fromkeys(((ROWS, PAPER), (SPECTRUM, ROWS), (AUTO, SPECTRUM)), "ours")
        return [
            found._replace(what=f"{part[0].data}: {found.what}", published=said)
            for part in [scores.where(data=name) for name in scores.values("data")]
            for pair, said in pairs.items()
            for found in beats(part, *pair)
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
        return {_short(name): severity_curves(scores.where(data=name)) for name in scores.values("data")}

    def compare(self, scores: Scores) -> list[Claim]:
        """In the paper both together are slightly better than matching alone."""
        return [
            claim
            for name in scores.values("data")
            for pair in ((BOTH, ROWS), (ROWS, BATCHNORM), (BATCHNORM, PLAIN))
            for claim in beats(scores.where(data=name), *pair)
        ]


def _short(data: str) -> str:
    """The networks that a data set is called after, as part of a file's name."""
    return data.split(" · ", maxsplit=1)[0].replace(" + ", "-")
