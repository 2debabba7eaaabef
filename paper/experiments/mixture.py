"""The paper's figure of mixed batches: one half of each batch is clean, the other corrupted."""

from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from paper.experiments.cifar import BATCHNORM, MATCHED, PLAIN, CifarSetting, Combination
from paper.experiments.claims import beats
from paper.experiments.experiment import Comparison, Figures, Root
from paper.experiments.gains import KINDS, METHODS, Gains
from paper.experiments.networks import SGD
from shiftmatch.evaluation.scores import Scores


@dataclass(frozen=True)
class Mixture:
    """The nine combinations of Figure 4, on batches of which `share` is clean.

    Each image comes once, clean or corrupted; in the paper each comes twice, once as either.
    """

    setting: CifarSetting = field(default_factory=CifarSetting)
    share: float = 0.5

    def run(self, data: Root, folder: Path) -> Scores:
        """Score all nine; the accuracy is that of both halves together."""
        every = [Combination(*pair) for pair in product(KINDS, METHODS)]
        return self.setting.evaluate(every, data, folder, stream=f"mixture:{self.share}")

    def plot(self, scores: Scores) -> Figures:
        """Bars in groups, as in Figure 4."""
        return Gains(self.setting).plot(scores)

    def compare(self, scores: Scores) -> list[Comparison]:
        """Batchnorm still gains, and matching more; but not for the log-likelihood of SGD."""
        return [
            found
            for kind, metric in product(KINDS, ("accuracy", "log_likelihood"))
            if (kind, metric) != (SGD, "log_likelihood")
            for better, worse in ((BATCHNORM, PLAIN), (MATCHED, BATCHNORM))
            for found in beats(scores, Combination(kind, better).name, Combination(kind, worse).name, metric=metric)
        ]
