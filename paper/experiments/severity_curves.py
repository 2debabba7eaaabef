"""Figure 1 of the paper, and its version for each corruption: five kinds of inference on CIFAR-10-C, with matching."""

from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from paper.experiments.cifar import MATCHED, NEW_SET, CifarSetting, Combination
from paper.experiments.claims import beats, has, holds, mean
from paper.experiments.experiment import Comparison, Figures, Root
from paper.experiments.networks import ENSEMBLE, HMC, KINDS
from paper.experiments.panels import per_corruption
from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.figures import severity_curves

METRICS = ("accuracy", "log_likelihood")

HMC_CLEAN = 0.90
"""The paper: HMC has more than 90 % on clean images."""

SMALL_PENALTY = 0.03
"""The "small performance penalty" for statistics of other images is read as at most this much accuracy."""

MATCHED_ELSEWHERE = (Combination(HMC, MATCHED, NEW_SET), Combination(ENSEMBLE, MATCHED, NEW_SET))
"""The paper does it with HMC; the ensemble stands in where there are no HMC samples."""


@dataclass(frozen=True)
class SeverityCurves:
    """Accuracy and log-likelihood against severity, the mean over the corruptions."""

    setting: CifarSetting = field(default_factory=CifarSetting)

    def run(self, data: Root, folder: Path) -> Scores:
        """Score every kind of network by itself and matched."""
        alone, matched = ([Combination(kind, *method) for kind in KINDS] for method in ((), (MATCHED,)))
        return self.setting.evaluate([*alone, *matched, *MATCHED_ELSEWHERE], data, folder)

    def plot(self, scores: Scores) -> Figures:
        """A line for each method."""
        kind = HMC if has(scores, HMC) else ENSEMBLE
        lines = {"baseline": kind, "method": f"{kind} + {MATCHED}"}
        return {metric: severity_curves(scores, metric=metric, **lines) for metric in METRICS}

    def compare(self, scores: Scores) -> list[Comparison]:
        """Matching helps each kind; matched HMC is above all baselines; statistics of new images do nearly as well."""
        every = [(kind, metric) for metric in METRICS for kind in KINDS]
        own = (beats(scores, f"{kind} + {MATCHED}", kind, metric=metric) for kind, metric in every)
        others = (beats(scores, f"{HMC} + {MATCHED}", kind, metric=metric) for kind, metric in every if kind != HMC)
        found = [*chain(*own, *others), *beats(scores, ENSEMBLE, HMC)]
        if has(scores, HMC):
            clean = mean(scores, HMC, clean=True)
            found.append(holds("HMC is above 90 % on clean images", f"{100 * clean:.1f} %", agrees=clean > HMC_CLEAN))
        return [*found, *_penalties(scores)]


@dataclass(frozen=True)
class PerCorruption:
    """The same, in a panel for each corruption."""

    curves: SeverityCurves = field(default_factory=SeverityCurves)

    def run(self, data: Root, folder: Path) -> Scores:
        """The run of Figure 1; its cells are found on disk if they are there."""
        return self.curves.run(data, folder)

    def plot(self, scores: Scores) -> Figures:
        """Panels of lines."""
        return {metric: per_corruption(scores, metric) for metric in METRICS}

    def compare(self, scores: Scores) -> list[Comparison]:
        """How many corruptions are met better with matching than without."""
        return [_better_under(scores, kind) for kind in KINDS if has(scores, kind, f"{kind} + {MATCHED}")]


def _penalties(scores: Scores) -> list[Comparison]:
    found = []
    for elsewhere in MATCHED_ELSEWHERE:
        if has(scores, elsewhere.name):
            loss = mean(scores, f"{elsewhere.kind} + {MATCHED}") - mean(scores, elsewhere.name)
            what = f"{elsewhere.kind}: CIFAR-10.1 statistics cost little"
            found.append(holds(what, f"{100 * loss:.1f} points", agrees=loss <= SMALL_PENALTY))
    return found


def _better_under(scores: Scores, kind: str) -> Comparison:
    """In the paper's figure matching is above the plain network under most corruptions."""
    corrupted = Scores([row for row in scores.where(metric="accuracy") if row.severity is not None])
    means = corrupted.mean(by=("method", "corruption"))
    names = corrupted.values("corruption")
    better = sum(means[f"{kind} + {MATCHED}", name] > means[kind, name] for name in names)
    what = f"{kind}: matching helps under most corruptions"
    return holds(what, f"{better} of {len(names)}", agrees=2 * better > len(names))
