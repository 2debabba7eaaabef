"""Whether `strength="auto"` does harm: every cell against the better of the plain network and channel moments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from paper.cifar import AUTO, MOMENTS, PLAIN, ReleasedSetting, first_batches
from paper.claims import CLEAN, Claim, promised
from paper.imagenet import Photographs, Sample
from paper.mnist import ENSEMBLE, HMC, MnistPosteriors, spread
from paper.mnist import PIECE as DIGITS_PIECE
from paper.mnist import preprocess as digits_preprocess
from paper.run import Figures, Root
from shiftmatch.data.images import Labelled
from shiftmatch.data.inventory import load
from shiftmatch.demo import embedded
from shiftmatch.evaluation.evaluate import Predictor, evaluate
from shiftmatch.evaluation.methods import method_named, predictor
from shiftmatch.evaluation.scores import Mean, Scores
from shiftmatch.evaluation.suites import Suite
from shiftmatch.report.figures import heat_map

METHODS = (PLAIN, MOMENTS, AUTO)
METRICS = ("accuracy", "ece")
ALLOWED = 0.01
"""What a cell may lose against the better of the two."""

KEPT = 0.9
"""The part of the mean gain over plain, that of the better of the two in each cell, that has to be kept."""

PICTURES = (
    *("gaussian_noise", "shot_noise", "defocus_blur", "motion_blur", "zoom_blur"),
    *("snow", "fog", "brightness", "contrast", "jpeg_compression"),
)


@dataclass(frozen=True)
class NoHarm:
    """Released CIFAR networks, MNIST posteriors and a sample of ImageNet, all with the default setting."""

    cifar: ReleasedSetting
    digits: MnistPosteriors = field(default_factory=lambda: MnistPosteriors(2000, 10, 500))
    photographs: Photographs | None = field(default_factory=Sample)
    corruptions: tuple[str, ...] = PICTURES
    statistics: int = 200
    test: int = 300
    batch: int = 100

    def run(self, data: Root, folder: Path) -> Scores:
        """Score all of them."""
        found = [self.cifar.evaluate(METRICS, data, folder)]
        digits = first_batches(
            load("mnist", "train", root=data), self.digits.ensemble.images, digits_preprocess, size=DIGITS_PIECE
        )
        for name, kind in ((HMC, "gaussian"), (ENSEMBLE, "ensemble")):
            members = spread(embedded.posterior(kind), self.digits.draws)
            suite = self.digits.suite(data)
            settings = {"preprocess": digits_preprocess, "batch_size": self.digits.batch}
            found.append(self._scores(name, _robust(members, digits), suite, folder, **settings))
        if self.photographs is not None:
            pictures, prepare = self.photographs.train(data), self.photographs.preprocess
            order = torch.randperm(len(pictures), generator=torch.Generator().manual_seed(0))  # they come by class
            chosen = _some(pictures, order[: self.test], "imagenet-sample")
            others = _some(pictures, order[self.test :][: self.statistics], "other pictures")
            suite = Suite("imagenet-c", chosen, self.corruptions, (3,))
            train = first_batches(others, self.statistics, prepare, size=self.batch)
            robust = _robust([self.photographs.network(data)], train)
            settings = {"preprocess": prepare, "batch_size": self.batch}
            found.append(self._scores("EfficientNet-Lite0", robust, suite, folder, **settings))
        rows = [row for scores in found for row in scores]
        correct = {key: right for scores in found for key, right in scores.correct.items()}
        return Scores(rows, {"evaluations": [dict(scores.provenance) for scores in found]}, correct)

    def _scores(
        self, name: str, robust: Mapping[str, Predictor], suite: Suite, folder: Path, **settings: Any
    ) -> Scores:
        return evaluate(
            robust,
            suite,
            METRICS,
            folder=folder / "cells",
            workers=self.cifar.workers,
            data=f"{name} · {suite.name}",
            **settings,
        )

    def plot(self, scores: Scores) -> Figures:
        """Corruption by method, for every network."""
        return {f"{i}-heat-map": heat_map(scores.where(data=name)) for i, name in enumerate(scores.values("data"))}

    def compare(self, scores: Scores) -> list[Claim]:
        """Not in the paper: what this package promises."""
        claims: list[Claim] = []
        for name in scores.values("data"):
            rows = scores.where(data=name, metric="accuracy")
            losses = {cell: _against_better(cells) for cell, cells in _cells(rows).items()}
            worst = min(losses, key=lambda cell: losses[cell].value)
            what = f"{name}: the worst of {len(losses)} cells ({' '.join(map(str, worst))}) is not below the better of "
            claims.append(promised(f"{what}plain and channel moments by over 1 point", losses[worst], -ALLOWED))
            beyond = sum(loss.value < -ALLOWED for loss in losses.values())
            claims[-1] = claims[-1]._replace(ours=f"{claims[-1].ours} ({beyond} of {len(losses)} below -1)")
            kept = _kept(rows)
            claims.append(promised(f"{name}: 90 % of the mean gain is kept", kept, KEPT, unit=" %"))
            plain = rows.difference(AUTO, PLAIN)
            if plain is not None:
                claims.append(
                    promised(f"{name}: a gain on average", Mean(plain.mean, plain.stderr, _images(rows)), 0.0)
                )
        return claims


def _robust(members: Sequence[nn.Module], train: Sequence[Tensor]) -> dict[str, Predictor]:
    return {method: predictor(method_named(method), members, train) for method in METHODS}


def _cells(rows: Scores) -> Mapping[tuple[str, object], Scores]:
    pairs = dict.fromkeys((row.corruption, row.severity) for row in rows)
    return {pair: rows.where(corruption=pair[0], severity=pair[1]) for pair in pairs}


def _against_better(cell: Scores) -> Mean:
    values = {row.method: row.value for row in cell}
    better = max((PLAIN, MOMENTS), key=lambda name: values[name])
    paired = cell.difference(AUTO, better)
    return Mean(values[AUTO] - values[better], None if paired is None else paired.stderr, _images(cell))


def _kept(rows: Scores) -> Mean:
    """The gain over plain as a part of that of the better of the two, means over all corrupted cells."""
    cells = [cell for (name, _), cell in _cells(rows).items() if name != CLEAN]
    values = [{row.method: row.value for row in cell} for cell in cells]
    best = sum(max(each[PLAIN], each[MOMENTS]) - each[PLAIN] for each in values)
    ours = sum(each[AUTO] - each[PLAIN] for each in values)
    paired = rows.difference(AUTO, PLAIN)
    stderr = None if paired is None or best <= 0 else paired.stderr * len(cells) / best
    return Mean(ours / best if best > 0 else inf, stderr, _images(rows))


def _images(rows: Scores) -> int:
    return next(iter(rows)).n or 0


def _some(images: Labelled, index: Tensor, name: str) -> Labelled:
    return Labelled(images.images[index], images.labels[index], name, images.source)
