"""Figures 1, 6 and 10 of the paper: kinds of inference on CIFAR-10-C against severity; their calibration."""

from dataclasses import dataclass, field
from itertools import chain
from math import inf
from pathlib import Path

from paper.cifar import AUTO, NEW_SET, PAPER, PLAIN, SPECTRUM, CifarSetting, Combination, joined
from paper.claims import CLEAN, Claim, Verdict, beats, has, helped, mean, stated
from paper.plots import against, per_corruption
from paper.run import Figures, Root
from paper.training import ENSEMBLE, HMC, KINDS, SGD, SGHMC, VI
from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.figures import reliability_diagram, severity_curves

METRICS = ("accuracy", "log_likelihood")
ERROR = "ece_equal_count"
"""The error as the published code takes it: 20 bins of equal count."""

HMC_CLEAN = 0.90
"""The paper: HMC has more than 90 % on clean images."""

SMALL_PENALTY = 0.03
"""The "small performance penalty" for statistics of other images is read as at most this much accuracy."""

MATCHED_ELSEWHERE = (Combination(HMC, PAPER, NEW_SET), Combination(ENSEMBLE, PAPER, NEW_SET))
"""The paper does it with HMC; the ensemble stands in where there are no HMC samples."""


DECIDED = (SGD, ENSEMBLE, HMC)
"""The kinds that are also matched with the strength that is decided for each batch; it takes three passes."""


DRAWN = (SGHMC, VI, HMC)
"""The kinds with many networks."""


@dataclass(frozen=True)
class SeverityCurves:
    """Accuracy and log-likelihood against severity, the mean over the corruptions.

    Draws may have a setting of their own, with fewer images and severities.
    """

    setting: CifarSetting = field(default_factory=CifarSetting)
    methods: tuple[str, ...] = (PLAIN, PAPER, SPECTRUM, AUTO)
    kinds: tuple[str, ...] = KINDS
    drawn: CifarSetting | None = None

    def run(self, data: Root, folder: Path) -> Scores:
        """Score every kind of network by itself, matched as published, and matched as this package does by default."""
        every = [Combination(kind, method) for method in self.methods for kind in self.kinds]
        chosen = [each for each in every if each.method != AUTO or each.kind in DECIDED]
        wanted = [*chosen, *MATCHED_ELSEWHERE]
        if self.drawn is None:
            return self.setting.evaluate(wanted, data, folder)
        found = self.setting.evaluate([each for each in wanted if each.kind not in DRAWN], data, folder)
        return joined(found, self.drawn.evaluate([each for each in wanted if each.kind in DRAWN], data, folder))

    def plot(self, scores: Scores) -> Figures:
        """A line for each method."""
        lines = {"baseline": _best_kind(scores), "method": _matched(scores)}
        return {metric: severity_curves(scores, metric=metric, **lines) for metric in METRICS}

    def compare(self, scores: Scores) -> list[Claim]:
        """Matching helps each kind; matched HMC is above all baselines; statistics of new images do nearly as well.

        What is said of the spectrum is this package's own claim, and is judged likewise.
        """
        every = [(kind, metric) for metric in METRICS for kind in KINDS]
        own = (beats(scores, f"{kind} + {PAPER}", kind, metric=metric) for kind, metric in every)
        others = (beats(scores, f"{HMC} + {PAPER}", kind, metric=metric) for kind, metric in every if kind != HMC)
        found = [*chain(*own, *others), *beats(scores, ENSEMBLE, HMC)]
        if has(scores, HMC):
            clean = mean(scores, HMC, clean=True)
            found.append(stated("HMC is above 90 % on clean images", clean, (HMC_CLEAN, inf), scale=100, unit=" %"))
        new = (beats(scores, each.name, f"{each.kind} + {PAPER}", margin=SMALL_PENALTY) for each in MATCHED_ELSEWHERE)
        pairs = ((SPECTRUM, PLAIN), (SPECTRUM, PAPER), (AUTO, SPECTRUM))
        own_ways = [
            beats(scores, *(Combination(kind, method).name for method in pair)) for kind in KINDS for pair in pairs
        ]
        return [*found, *chain(*new), *(claim._replace(published="ours") for claim in chain(*own_ways))]


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

    def compare(self, scores: Scores) -> list[Claim]:
        """How many corruptions are met better with matching than without: in the paper's figure, most."""
        return [_helps(scores, kind) for kind in KINDS if has(scores, kind, f"{kind} + {PAPER}")]


@dataclass(frozen=True)
class Calibration:
    """Accuracy and calibration error of SGD, an ensemble and HMC by themselves, and matched.

    The paper has the mean of five SGD networks; here SGD is the first member of the ensemble.
    """

    setting: CifarSetting = field(default_factory=CifarSetting)
    methods: tuple[str, ...] = (PLAIN, PAPER, SPECTRUM, AUTO)

    def run(self, data: Root, folder: Path) -> Scores:
        """Score them; the reliability curves come along."""
        every = [Combination(kind, method) for method in self.methods for kind in (SGD, ENSEMBLE, HMC)]
        return self.setting.evaluate(every, data, folder, reliability=True)

    def plot(self, scores: Scores) -> Figures:
        """Both against severity, one against the other, and the reliability curves under corruption."""
        names = {"baseline": SGD, "method": _matched(scores)}
        return {
            "accuracy": severity_curves(scores, metric="accuracy", **names),
            "ece": severity_curves(scores, metric=ERROR, **names),
            "ece-against-accuracy": against(scores, "accuracy", ERROR),
            "reliability": reliability_diagram(scores, **names),
        }

    def compare(self, scores: Scores) -> list[Claim]:
        """Matching is the most accurate, the ensemble the best calibrated, SGD the worst in both."""
        matched, alone = _matched(scores), (SGD, ENSEMBLE, HMC)
        accurate = (beats(scores, matched, kind) for kind in alone)
        calibrated = (beats(scores, ENSEMBLE, name, metric=ERROR) for name in (SGD, HMC, matched))
        worst = (beats(scores, name, SGD, metric=ERROR) for name in (HMC, matched))
        return [*chain(*accurate, *calibrated, *worst)]


def _matched(scores: Scores) -> str:
    return f"{_best_kind(scores)} + {PAPER}"


def _best_kind(scores: Scores) -> str:
    """The paper's ShiftMatch is on HMC; the ensemble stands in where there are no HMC samples, else SGD."""
    return next(kind for kind in (HMC, ENSEMBLE, SGD) if has(scores, kind))


def _helps(scores: Scores, kind: str) -> Claim:
    """Matching is above the plain network under more than half of the corruptions."""
    low, count, high = helped(scores, f"{kind} + {PAPER}", kind)
    names = [name for name in scores.values("corruption") if name != CLEAN]
    verdict = Verdict.AGREES if 2 * low > len(names) else Verdict.CANNOT_TELL
    verdict = Verdict.DIFFERS if 2 * high <= len(names) else verdict
    n = mean(scores, kind).n
    what = f"{kind}: matching helps under most corruptions"
    return Claim(what, "yes", f"{count} of {len(names)}", f"{low} to {high}", n, verdict)
