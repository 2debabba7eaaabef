"""FRN ResNet-20s on CIFAR-10-C: the setting that most figures of the paper share, with what they measure in it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from paper.experiments.experiment import LEFT_OUT, Root
from paper.experiments.inputs import first_batches, statistics_file
from paper.experiments.networks import HMC, Networks, preprocess
from shiftmatch.corruptions import PAPER
from shiftmatch.data.inventory import load
from shiftmatch.errors import DataNotFoundError
from shiftmatch.evaluation.evaluate import Predictor, evaluate
from shiftmatch.evaluation.methods import METHODS, predictor
from shiftmatch.evaluation.scores import Scores
from shiftmatch.evaluation.suites import Suite, cifar10_c
from shiftmatch.utils.files import data_folder

METRICS = ("accuracy", "log_likelihood", "brier", "ece", "ece_equal_count", "reliability")
"""All that any of the figures needs, so that they share the cells on disk."""

PLAIN, BATCHNORM, MATCHED = "plain", "batchnorm", "ShiftMatch"
ROWS_AND_COLUMNS = "ShiftMatch: rows and columns"
"""The structure of the paper, which its figures call ShiftMatch."""

TRAINING_SET, NEW_SET = "cifar10", "cifar10.1-v6"
PIECE = 100
"""Training images per batch, when statistics are measured."""


class Combination(NamedTuple):
    """Networks of a kind, made robust by a method with statistics of a data set."""

    kind: str
    method: str = PLAIN
    statistics: str = TRAINING_SET

    @property
    def name(self) -> str:
        """What tables call it.

        >>> Combination("HMC").name, Combination("HMC", "ShiftMatch", "cifar10.1-v6").name
        ('HMC', 'HMC + ShiftMatch (cifar10.1-v6)')
        """
        if self.method == PLAIN:
            return self.kind
        other = "" if self.statistics == TRAINING_SET else f" ({self.statistics})"
        return f"{self.kind} + {self.method}{other}"

    @property
    def optional(self) -> bool:
        """Whether it needs what only its publishers have: HMC samples, or new test images."""
        return self.kind == HMC or self.statistics != TRAINING_SET


@dataclass(frozen=True)
class CifarSetting:
    """Networks, corrupted test images and the training images that statistics come from; published unless said."""

    networks: Networks = field(default_factory=Networks)
    images: int = 10_000
    train: int = 40_960
    batch: int = 10_000
    corruptions: tuple[str, ...] = PAPER
    severities: tuple[int, ...] = (1, 2, 3, 4, 5)
    workers: int = 2
    seed: int = 0

    def evaluate(
        self, combinations: Sequence[Combination], data: Root, folder: Path, *, stream: str | None = None
    ) -> Scores:
        """Score the combinations; those whose networks or images are not on this machine are left out, and named."""
        predictors, missing = self.predictors(combinations, data, folder)
        scores = evaluate(
            predictors,
            self.suite(data),
            METRICS,
            preprocess=preprocess,
            batch_size=self.batch,
            stream=stream,
            folder=folder / "cells",
            workers=self.workers,
            note={"networks": asdict(self.networks), "statistics from": self.train},
        )
        return Scores(scores.rows, {**scores.provenance, LEFT_OUT: missing})

    def suite(self, data: Root) -> Suite:
        """The corrupted test images."""
        return cifar10_c(
            data, corruptions=self.corruptions, severities=self.severities, limit=self.images, seed=self.seed
        )

    def predictors(
        self, combinations: Sequence[Combination], data: Root, folder: Path
    ) -> tuple[Mapping[str, Predictor], Mapping[str, str]]:
        """The combinations by name, and those that are missing with the reason."""
        ready: dict[str, Predictor] = {}
        missing: dict[str, str] = {}
        for wanted in combinations:
            try:
                ready[wanted.name] = self._predictor(wanted, data, folder)
            except DataNotFoundError as error:
                if not wanted.optional:
                    raise
                missing[wanted.name] = str(error).replace(f"{data_folder(data)}/", "")
        return ready, missing

    def _predictor(self, wanted: Combination, data: Root, folder: Path) -> Predictor:
        members = self.networks.posterior(wanted.kind, data).models()
        split = "train" if wanted.statistics == TRAINING_SET else "test"
        train = first_batches(load(wanted.statistics, split, root=data), self.train, preprocess, size=PIECE)
        kept = statistics_file(folder, self.networks.folder(data).name, wanted.name, self.train)
        method = METHODS[ROWS_AND_COLUMNS if wanted.method == MATCHED else wanted.method]
        return predictor(method, members, train, path=kept)
