"""The paper's figure of calibration: accuracy and expected calibration error against severity, and each other."""

from dataclasses import dataclass, field
from pathlib import Path

from paper.experiments.cifar import MATCHED, CifarSetting, Combination
from paper.experiments.claims import has, holds, mean
from paper.experiments.experiment import Comparison, Figures, Root
from paper.experiments.networks import ENSEMBLE, HMC, SGD
from paper.experiments.panels import against
from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.figures import reliability_diagram, severity_curves

ERROR = "ece_equal_count"
"""The error as the published code takes it: 20 bins of equal count."""

KINDS = (SGD, ENSEMBLE, HMC)


@dataclass(frozen=True)
class Calibration:
    """SGD, an ensemble and HMC by themselves, and matched.

    The paper has the mean of five SGD networks; here SGD is the first member of the ensemble.
    """

    setting: CifarSetting = field(default_factory=CifarSetting)

    def run(self, data: Root, folder: Path) -> Scores:
        """Score them; the reliability curves come along."""
        every = [Combination(kind, *method) for method in ((), (MATCHED,)) for kind in KINDS]
        return self.setting.evaluate(every, data, folder)

    def plot(self, scores: Scores) -> Figures:
        """Both against severity, one against the other, and the reliability curves under corruption."""
        names = {"baseline": SGD, "method": _matched(scores)}
        return {
            "accuracy": severity_curves(scores, metric="accuracy", **names),
            "ece": severity_curves(scores, metric=ERROR, **names),
            "ece-against-accuracy": against(scores, "accuracy", ERROR),
            "reliability": reliability_diagram(scores, **names),
        }

    def compare(self, scores: Scores) -> list[Comparison]:
        """Matching is the most accurate, the ensemble the best calibrated, SGD the worst in both."""
        alone = [kind for kind in KINDS if has(scores, kind)]
        compared = [*alone, _matched(scores)]
        accuracy, error = ({name: mean(scores, name, metric=m) for name in compared} for m in ("accuracy", ERROR))
        best, calibrated = max(accuracy, key=accuracy.__getitem__), min(error, key=error.__getitem__)
        worst = max(error, key=error.__getitem__)
        return [
            holds("matching is the most accurate", f"{best}, {_percent(accuracy)}", agrees=best == _matched(scores)),
            holds(
                "the ensemble is the best calibrated", f"{calibrated}, {_percent(error)}", agrees=calibrated == ENSEMBLE
            ),
            holds("SGD is the worst calibrated", worst, agrees=worst == SGD),
        ]


def _matched(scores: Scores) -> str:
    """The paper's ShiftMatch is on HMC; the ensemble stands in where there are no HMC samples."""
    return f"{HMC if has(scores, HMC) else ENSEMBLE} + {MATCHED}"


def _percent(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {100 * value:.1f}" for name, value in values.items())
