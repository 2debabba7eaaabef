"""Whether `strength="auto"` does harm: every cell against the better of the plain network and channel moments."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import inf
from operator import add
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from paper.cifar import AUTO, MOMENTS, PLAIN, ReleasedSetting, first_batches
from paper.claims import CLEAN, Claim, interval, promised
from paper.imagenet import Photographs
from paper.members import spread
from paper.mnist import ENSEMBLE, HMC, MnistPosteriors
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
    """Released CIFAR networks, MNIST posteriors or a sample of ImageNet, all with the default setting."""

    cifar: ReleasedSetting | None = None
    digits: MnistPosteriors | None = None
    photographs: Photographs | None = None
    corruptions: tuple[str, ...] = PICTURES
    statistics: int = 200
    test: int = 300
    batch: int = 100
    workers: int = 1

    def run(self, data: Root, folder: Path) -> Scores:
        """Score all of them."""
        found: list[Scores] = []
        if self.cifar is not None:
            found.append(self.cifar.evaluate(METRICS, data, folder))
        if self.digits is not None:
            found += self._on_digits(self.digits, data, folder)
        if self.photographs is not None:
            found.append(self._on_photographs(self.photographs, data, folder))
        return replace(reduce(add, found), provenance={"evaluations": [dict(scores.provenance) for scores in found]})

    def _on_digits(self, digits: MnistPosteriors, data: Root, folder: Path) -> Iterator[Scores]:
        """Both MNIST posteriors."""
        known = load("mnist", "train", root=data)
        train = first_batches(known, digits.ensemble.images, digits_preprocess, size=DIGITS_PIECE)
        for name, kind in ((HMC, "gaussian"), (ENSEMBLE, "ensemble")):
            members = spread(embedded.posterior(kind), digits.draws)
            settings = {"preprocess": digits_preprocess, "batch_size": digits.batch}
            yield self._scores(name, _robust(members, train), digits.suite(data), folder, **settings)

    def _on_photographs(self, photographs: Photographs, data: Root, folder: Path) -> Scores:
        """The sample of ImageNet, without channel moments: statistics of so few pictures of other classes harm them."""
        pictures, prepare = photographs.train(data), photographs.preprocess
        order = torch.randperm(len(pictures), generator=torch.Generator().manual_seed(0))  # they come by class
        chosen = _some(pictures, order[: self.test], "imagenet-sample")
        others = _some(pictures, order[self.test :][: self.statistics], "other pictures")
        suite = Suite("imagenet-c", chosen, self.corruptions, (3,))
        train = first_batches(others, self.statistics, prepare, size=self.batch)
        robust = _robust([photographs.network(data)], train, (PLAIN, AUTO))
        return self._scores("EfficientNet-Lite0", robust, suite, folder, preprocess=prepare, batch_size=self.batch)

    def _scores(
        self, name: str, robust: Mapping[str, Predictor], suite: Suite, folder: Path, **settings: Any
    ) -> Scores:
        return evaluate(
            robust,
            suite,
            METRICS,
            folder=folder / "cells",
            workers=self.workers,
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
            where = " ".join(str(part) for part in worst if part is not None)
            better = "the better of plain and channel moments" if MOMENTS in rows.values("method") else "plain"
            what = f"{name}: the worst of {len(losses)} cells ({where}) is not below {better} by over 1 point"
            claims.append(promised(what, losses[worst], -ALLOWED))
            below = sum(round(loss.value, 6) < -ALLOWED for loss in losses.values())
            surely = sum(interval(loss)[1] < -ALLOWED for loss in losses.values())
            shown = f"{claims[-1].ours} ({below} cells below -1, {surely} of them with the whole interval)"
            claims[-1] = claims[-1]._replace(ours=shown)
            if MOMENTS in rows.values("method"):
                claims.append(promised(f"{name}: 90 % of the mean gain is kept", _kept(rows), KEPT, unit=" %"))
            plain = rows.difference(AUTO, PLAIN)
            if plain is not None:
                gain = Mean(plain.mean, plain.stderr, _images(rows))
                claims.append(promised(f"{name}: a gain on average", gain, 0.0))
        return claims


def _robust(
    members: Sequence[nn.Module], train: Sequence[Tensor], methods: Sequence[str] = METHODS
) -> dict[str, Predictor]:
    return {method: predictor(method_named(method), members, train) for method in methods}


def _cells(rows: Scores) -> Mapping[tuple[str, object], Scores]:
    pairs = dict.fromkeys((row.corruption, row.severity) for row in rows)
    return {pair: rows.where(corruption=pair[0], severity=pair[1]) for pair in pairs}


def _against_better(cell: Scores) -> Mean:
    values = {row.method: row.value for row in cell}
    better = max((PLAIN, MOMENTS), key=lambda name: values.get(name, 0.0))
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
