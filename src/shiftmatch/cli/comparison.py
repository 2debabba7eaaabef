"""A comparison that is said in words: a network by name, methods by name, a suite by name."""

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from shiftmatch.cli.loading import check_runs, known_preprocessing, open_members, preprocessing
from shiftmatch.corruptions import PAPER
from shiftmatch.errors import InputError
from shiftmatch.evaluation.evaluate import Predictor, evaluate
from shiftmatch.evaluation.methods import METHODS, Method, method_named, predictor
from shiftmatch.evaluation.scores import Scores
from shiftmatch.evaluation.suites import Suite, open_suite, training_batches
from shiftmatch.metrics.registry import named
from shiftmatch.utils.files import unsafe_characters
from shiftmatch.utils.hashing import content_hash


@dataclass(frozen=True)
class Comparison:
    """Methods side by side, each made from one network or posterior and the same clean training images."""

    network: str
    suite: str = "cifar10-c"
    methods: tuple[str, ...] = ("plain", "batchnorm", "ShiftMatch")
    metrics: tuple[str, ...] = ("accuracy",)
    weights: Path | None = None
    posterior: Path | None = None
    mean: str | None = None
    std: str | None = None
    corruptions: tuple[str, ...] = ()
    severities: tuple[str, ...] = ()
    limit: int | None = None
    batch: int = 1000
    stream: str | None = None
    train: Path | None = None
    train_images: int = 4000
    seed: int = 0
    root: str | None = None

    def run(self, folder: Path, *, workers: int = 1, command: str = "") -> Scores:
        """Prepare the methods and evaluate them; finished cells are kept in `folder`."""
        suite, prepare = self._open_suite(), preprocessing(self.mean, self.std, base=known_preprocessing(self.network))
        methods = self._methods(fmean(prepare.std))
        metrics = [named(metric)[1] for metric in self.metrics]
        members = open_members(self.network, self.weights, self.posterior)
        check_runs(members[0], prepare(suite.clean.images[torch.arange(min(2, len(suite)))]))
        batches = training_batches(suite, prepare, self.train_images, path=self.train)
        predictors: dict[str, Predictor] = {}
        for method in methods:
            file = (
                folder / f"statistics-{unsafe_characters.sub('_', method.name)}.safetensors" if self.posterior else None
            )
            predictors[method.name] = predictor(method, members, batches, path=file)
        trained = sum(map(len, batches))
        note: dict[str, Any] = {"command": command, "network": self.network, "weights": content_hash(members)}
        return evaluate(
            predictors,
            suite,
            metrics,
            preprocess=prepare,
            batch_size=self.batch,
            stream=self.stream,
            folder=folder,
            workers=workers,
            note=note | {"members": len(members), "training images": trained},
        )

    def _open_suite(self) -> Suite:
        chosen = PAPER if self.corruptions == ("paper",) else self.corruptions
        try:
            levels = [int(severity) for severity in self.severities]
        except ValueError:
            raise InputError(f"Severities are numbers such as 1,3,5; got {','.join(self.severities)}.") from None
        return open_suite(
            self.suite, self.root, corruptions=chosen or None, severities=levels, limit=self.limit, seed=self.seed
        )

    def _methods(self, pixel_std: float) -> list[Method]:
        names = METHODS if self.methods == ("all",) else self.methods
        return [method_named(name, pixel_std=pixel_std) for name in names]
