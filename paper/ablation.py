"""The paper's ablation: other places to match at, and other structures of the covariance."""

from dataclasses import dataclass, field
from pathlib import Path

from paper.cifar import PAPER, PLAIN, ROWS, SPECTRUM, CifarSetting, Combination, known
from paper.claims import Claim, beats
from paper.run import Figures, Root
from paper.training import HMC
from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.figures import severity_curves

INPUT, AFTER, FULL, JOINT, ONE_SHOT = VARIANTS = (
    "ShiftMatch: input only",
    "ShiftMatch: after activations",
    "ShiftMatch: SpatialFull",
    "ShiftMatch: ChannelJoint",
    "ShiftMatch: Kronecker",
)
"""The last, the Kronecker equation of the paper taken at its word, is no variant of the paper's figure."""


@dataclass(frozen=True)
class Ablation:
    """The networks of one kind, plain, matched, and matched in every other way."""

    setting: CifarSetting = field(default_factory=CifarSetting)
    kind: str = HMC
    variants: tuple[str, ...] = VARIANTS

    def run(self, data: Root, folder: Path) -> Scores:
        """Score them all."""
        return self.setting.evaluate(
            [Combination(self.kind, name) for name in known((PLAIN, PAPER, ROWS, SPECTRUM, *self.variants))],
            data,
            folder,
        )

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
