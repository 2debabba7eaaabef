"""Figure 5 of the paper: ImageNet-C against the number of training images that statistics are measured from."""

from dataclasses import dataclass, field
from pathlib import Path

from paper.experiments.claims import beats, beside, has, mean
from paper.experiments.experiment import Comparison, Figures, Root
from paper.experiments.inputs import first_batches
from paper.experiments.photographs import Photographs, Published
from shiftmatch.corruptions import PAPER
from shiftmatch.evaluation.evaluate import Predictor, evaluate
from shiftmatch.evaluation.methods import METHODS, predictor
from shiftmatch.evaluation.scores import Scores
from shiftmatch.evaluation.suites import Suite
from shiftmatch.report.figures import severity_curves

METRICS = ("accuracy", "log_likelihood")
PLAIN, BATCHNORM, MATCHED = "plain", "batchnorm", "ShiftMatch"
PIECE = 50
"""Training images per batch, when statistics are measured."""

PUBLISHED = {
    PLAIN: (63.10, 53.14, 44.47, 32.86, 22.25),
    BATCHNORM: (68.49, 61.86, 56.04, 47.26, 37.38),
    f"{MATCHED} 1,000": (68.31, 62.32, 57.06, 49.41, 40.67),
    f"{MATCHED} 10,000": (68.81, 62.87, 57.67, 50.12, 41.25),
    f"{MATCHED} 100,000": (68.85, 62.91, 57.70, 50.18, 41.31),
    f"{MATCHED} 1,281,000": (68.84, 62.92, 57.71, 50.20, 41.29),
}
"""Accuracy in %, the mean of 16 corruptions, at severities 1 to 5: the authors' table."""

WITHIN = 3.0
"""Points that accuracies may differ by and still count as the same: the weights are not those of the authors."""


@dataclass(frozen=True)
class ImageNet:
    """A network on ImageNet-C: plain, with test-time batchnorm, and matched to statistics of more and more images."""

    photographs: Photographs = field(default_factory=Published)
    images: int = 50_000
    train: tuple[int, ...] = (1000, 10_000, 100_000, 1_281_000)
    batch: int = 1000
    corruptions: tuple[str, ...] = PAPER
    severities: tuple[int, ...] = (1, 2, 3, 4, 5)
    workers: int = 1
    seed: int = 0

    def run(self, data: Root, folder: Path) -> Scores:
        """Score them all."""
        return evaluate(
            self.predictors(data),
            self.suite(data),
            METRICS,
            preprocess=self.photographs.preprocess,
            batch_size=self.batch,
            folder=folder / "cells",
            workers=self.workers,
        )

    def predictors(self, data: Root) -> dict[str, Predictor]:
        """What is compared."""
        network, train = self.photographs.network(data), self.photographs.train(data)
        batches = {n: first_batches(train, n, self.photographs.preprocess, size=PIECE) for n in self.train}
        others = {name: predictor(METHODS[name], network, batches[self.train[0]]) for name in (PLAIN, BATCHNORM)}
        matched = {
            f"{MATCHED} {n:,}": predictor(METHODS["ShiftMatch: rows and columns"], network, own)
            for n, own in batches.items()
        }
        return {**others, **matched}

    def suite(self, data: Root) -> Suite:
        """The corruptions of the first test images."""
        cells = {"corruptions": self.corruptions, "severities": self.severities, "seed": self.seed}
        return self.photographs.suite(data, limit=self.images, **cells)

    def plot(self, scores: Scores) -> Figures:
        """Lines against severity."""
        names = {"baseline": PLAIN, "method": self._name(-1)}
        return {metric: severity_curves(scores, metric=metric, **names) for metric in METRICS}

    def compare(self, scores: Scores) -> list[Comparison]:
        """Matching is above batchnorm, that above the plain network; few images cost little; the authors' table."""
        order = [(BATCHNORM, PLAIN), (self._name(-1), BATCHNORM), (self._name(-1), self._name(0))]
        found = [comparison for pair in order for comparison in beats(scores, *pair, margin=0.002)]
        return [*found, *self._table(scores)]

    def _table(self, scores: Scores) -> list[Comparison]:
        return [
            beside(f"{name}, severity {severity}", 100 * mean(scores, name, severity), value, within=WITHIN, unit=" %")
            for name, values in PUBLISHED.items()
            if has(scores, name)
            for severity, value in zip((1, 2, 3, 4, 5), values, strict=True)
            if severity in self.severities
        ]

    def _name(self, position: int) -> str:
        return f"{MATCHED} {self.train[position]:,}"
