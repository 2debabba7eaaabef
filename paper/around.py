"""Beyond the paper: a posterior around a released network, matched, beside the network by itself."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from math import inf
from pathlib import Path

import torch
from torch import nn

from paper.cifar import (
    AUTO,
    PLAIN,
    SPECTRUM,
    Combination,
    networks_named,
    released,
    released_batches,
    released_preprocess,
    statistics_file,
)
from paper.claims import Claim, beats, gain, stated
from paper.members import kept, spread
from paper.plots import grouped_bars
from paper.recipes.cifar_released_posterior import Around
from paper.run import Figures, Root
from shiftmatch.corruptions import PAPER as CORRUPTIONS
from shiftmatch.evaluation.evaluate import Predictor, evaluate
from shiftmatch.evaluation.methods import method_named
from shiftmatch.evaluation.scores import Scores
from shiftmatch.evaluation.suites import cifar10_c
from shiftmatch.matching.average import average
from shiftmatch.samplers.posterior import Posterior
from shiftmatch.utils.files import data_folder

METRICS = ("accuracy", "log_likelihood", "ece")
POSTERIOR = "posterior"
SHOWN = (("accuracy", 100.0, " points"), ("log_likelihood", 1.0, ""))
"""Metrics of the comparison, how they are scaled, and their unit."""


@dataclass(frozen=True)
class AroundReleased:
    """A released network and `draws` of the posterior around it, each plain and matched, at one severity."""

    around: Around = field(default_factory=Around)
    draws: int = 12
    images: int = 10_000
    train: int = 50_000
    batch: int = 1000
    severity: int = 5
    corruptions: tuple[str, ...] = CORRUPTIONS
    methods: tuple[str, ...] = (PLAIN, SPECTRUM, AUTO)
    workers: int = 2

    def run(self, data: Root, folder: Path) -> Scores:
        """Score both, by the same methods."""
        suite = cifar10_c(data, corruptions=self.corruptions, severities=(self.severity,), limit=self.images)
        return evaluate(
            self.predictors(data, folder),
            suite,
            METRICS,
            preprocess=released_preprocess,
            batch_size=self.batch,
            folder=folder / "cells",
            workers=self.workers,
            note={"draws": self.draws, "statistics from": self.train, "posterior": asdict(self.around)},
        )

    def predictors(self, data: Root, folder: Path) -> Mapping[str, Predictor]:
        """Every method for the network and for the posterior."""
        network = released(self.around.depth, data)
        groups: dict[str, Sequence[nn.Module]] = {
            self.alone: [network],
            POSTERIOR: spread(self.posterior(data), self.draws, network),
        }
        train = released_batches(self.train, data)
        found: dict[str, Predictor] = {}
        for (name, members), method in product(groups.items(), self.methods):
            file = statistics_file(folder, f"{self.alone}-{name}-{len(members)}", SPECTRUM, self.train)
            prepared = method_named(method).prepare(members, train, file)
            found[Combination(name, method).name] = average(kept(prepared, folder / "answers"))
        return found

    def posterior(self, data: Root) -> Posterior:
        """The draws, made when they are missing: about five minutes of one core for twelve."""
        file = data_folder(data) / "networks" / f"{self.alone}-around-{self.around.draws}.safetensors"
        if not file.exists():
            self.around.sample(file.with_suffix(""), data).save(file, dtype=torch.float16)
        return Posterior.load(file)

    @property
    def alone(self) -> str:
        """What tables call the network by itself."""
        return networks_named((self.around.depth,))

    def plot(self, scores: Scores) -> Figures:
        """Bars in two groups."""
        groups = [[Combination(name, method).name for method in self.methods] for name in (self.alone, POSTERIOR)]
        return {metric: grouped_bars(scores, groups, metric) for metric in ("accuracy", "log_likelihood")}

    def compare(self, scores: Scores) -> list[Claim]:
        """Not in the paper: what matching gains for either, and the posterior over the network, alike matched."""
        found = [
            claim._replace(published="ours")
            for name, method in product((self.alone, POSTERIOR), self.methods[1:])
            for claim in beats(scores, Combination(name, method).name, name)
        ]
        for method, (metric, scale, unit) in product(self.methods, SHOWN):
            pair = (Combination(POSTERIOR, method).name, Combination(self.alone, method).name)
            what = f"{pair[0]} has a higher {metric.replace('_', '-')} than {pair[1]}"
            more = gain(scores, *pair, metric=metric)
            found.append(stated(what, more, (0.0, inf), published="ours", scale=scale, unit=unit))
        return found
