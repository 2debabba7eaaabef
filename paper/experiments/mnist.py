"""Figure 3 of the paper: MNIST-C, with LeNet posteriors under a Gaussian and under the EmpCov prior."""

from dataclasses import dataclass
from pathlib import Path

from paper.experiments.claims import beats, holds, mean
from paper.experiments.experiment import Comparison, Figures, Root
from shiftmatch.corruptions.registry import names
from shiftmatch.data.inventory import load
from shiftmatch.demo import embedded
from shiftmatch.demo.mnist import OURS, PLAIN, SUITE, MnistDemo
from shiftmatch.evaluation.evaluate import evaluate
from shiftmatch.evaluation.scores import Scores
from shiftmatch.evaluation.suites import Suite
from shiftmatch.report.figures import gain_bars, heat_map

METRICS = ("accuracy", "log_likelihood", "ece")
EMPCOV, ENSEMBLE, BATCHNORM = "EmpCov", "ensemble", "test-time batchnorm"
TRANSLATE = "translate"


@dataclass(frozen=True)
class MnistPosteriors:
    """The posteriors that ship with the package, on the digits that ship with it or on all of the test set."""

    images: int = 10_000
    draws: int = 20
    batch: int = 10_000
    corruptions: tuple[str, ...] = names(SUITE)
    workers: int = 2
    seed: int = 0

    def run(self, data: Root, folder: Path) -> Scores:
        """Score the methods of the demo."""
        demo = MnistDemo(draws=self.draws)
        return evaluate(
            demo.methods(),
            self.suite(data),
            METRICS,
            preprocess=embedded.preprocess,
            batch_size=self.batch,
            folder=folder / "cells",
            workers=self.workers,
            note={"draws": self.draws},
        )

    def suite(self, data: Root) -> Suite:
        """The corruptions of the first digits; more than ship with the package are read from the data folder."""
        shipped = embedded.images()
        digits = shipped if self.images <= len(shipped) else load("mnist", "test", root=data)
        return Suite(SUITE, digits.first(self.images), self.corruptions, (None,), seed=self.seed)

    def plot(self, scores: Scores) -> Figures:
        """Corruption × method, and what matching gains."""
        return {"heat-map": heat_map(scores), "gains": gain_bars(scores, baseline=PLAIN, method=OURS)}

    def compare(self, scores: Scores) -> list[Comparison]:
        """Matching is best in the mean, and poor under translation, which no stationary linear map undoes."""
        others = (PLAIN, EMPCOV, ENSEMBLE, BATCHNORM)
        found = [comparison for name in others for comparison in beats(scores, OURS, name)]
        moved = scores.where(method=OURS, metric="accuracy", corruption=TRANSLATE)[0].value
        what = "ShiftMatch is poor under translation: below its mean"
        difference = f"{100 * moved:.1f} % against {100 * mean(scores, OURS):.1f} %"
        return [*found, holds(what, difference, agrees=moved < mean(scores, OURS))]
