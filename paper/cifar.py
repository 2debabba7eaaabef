"""CIFAR-10-C as most figures share it: FRN ResNet-20s, and released ResNets with BatchNorm."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from paper.members import kept, spread
from paper.run import LEFT_OUT, Root
from paper.training import HMC, SGD, SGHMC, Networks, preprocess
from shiftmatch.corruptions import PAPER as CORRUPTIONS
from shiftmatch.data.images import Labelled
from shiftmatch.data.inventory import load
from shiftmatch.errors import DataNotFoundError
from shiftmatch.evaluation.evaluate import Predictor, evaluate
from shiftmatch.evaluation.methods import method_named, predictor
from shiftmatch.evaluation.scores import Scores
from shiftmatch.evaluation.suites import Suite, cifar10_c, prepared_batches
from shiftmatch.matching.average import average
from shiftmatch.matching.match import fit
from shiftmatch.matching.statistics import Statistics
from shiftmatch.models import build
from shiftmatch.models.preprocessing import Preprocessing
from shiftmatch.utils.files import data_folder, unsafe_characters
from shiftmatch.utils.sequences import LazySequence

PLAIN, BATCHNORM, MOMENTS = "plain", "batchnorm", "channel moments"
PAPER = "ShiftMatch (paper)"
"""As published: the authors' constants, and BatchNorm, where there is one, on batch statistics."""

ROWS, SPECTRUM, AUTO = OURS = ("ShiftMatch: rows and columns", "ShiftMatch: spectrum", "ShiftMatch: auto")
"""What this package makes of it, beside the published method."""

RELIABILITY = "reliability"
METRICS = ("accuracy", "log_likelihood", "brier", "ece", "ece_equal_count", RELIABILITY)
"""All that any of the figures needs, so that they share the cells on disk."""

TRAINING_SET, NEW_SET = "cifar10", "cifar10.1-v6"
PIECE = 100
"""Training images per batch, when statistics of FRN networks are measured; they do not depend on it."""

RELEASED_PIECE = 500
"""The same for released networks, whose BatchNorm on batch statistics sees so many together."""

released_preprocess = Preprocessing(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))


class Combination(NamedTuple):
    """Networks of a kind, made robust by a method with statistics of a data set."""

    kind: str
    method: str = PLAIN
    statistics: str = TRAINING_SET

    @property
    def name(self) -> str:
        """What tables call it.

        >>> Combination("HMC").name, Combination("HMC", "ShiftMatch: spectrum", "cifar10.1-v6").name
        ('HMC', 'HMC + ShiftMatch: spectrum (cifar10.1-v6)')
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
    corruptions: tuple[str, ...] = CORRUPTIONS
    severities: tuple[int, ...] = (1, 2, 3, 4, 5)
    workers: int = 2
    seed: int = 0
    draws: int | None = None  # of a posterior, evenly spread; all unless said

    def evaluate(
        self,
        combinations: Sequence[Combination],
        data: Root,
        folder: Path,
        *,
        stream: str | None = None,
        reliability: bool = False,
    ) -> Scores:
        """Score the combinations; those whose networks or images are not on this machine are left out, and named.

        Curves of reliability are many rows: they are kept with the cells, and given where they are asked for.
        """
        predictors, missing = self.predictors(combinations, data, folder)
        scores = evaluate(
            predictors,
            _suite(self, data),
            METRICS,
            preprocess=preprocess,
            batch_size=self.batch,
            stream=stream,
            folder=folder / "cells",
            workers=self.workers,
            note={"networks": asdict(self.networks), "statistics from": self.train, "draws": self.draws or "all"},
        )
        rows = [row for row in scores.rows if reliability or not row.metric.startswith(RELIABILITY)]
        return replace(scores, rows=rows, provenance={**scores.provenance, LEFT_OUT: missing})

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
                if not (wanted.optional or (self.networks.shipped and wanted.kind != SGD)):
                    raise
                folders = (f"{data_folder(data)}/", f"{Path(__file__).parents[1]}/")
                missing[wanted.name] = reduce(lambda text, folder: text.replace(folder, ""), folders, str(error))
        return ready, missing

    def _predictor(self, wanted: Combination, data: Root, folder: Path) -> Predictor:
        posterior = self.networks.posterior(wanted.kind, data)
        fewer = self.draws if wanted.kind in (SGHMC, HMC) else None
        members = spread(posterior, fewer or len(posterior))
        split = "train" if wanted.statistics == TRAINING_SET else "test"
        train = first_batches(load(wanted.statistics, split, root=data), self.train, preprocess, size=PIECE)
        same = wanted._replace(method=SPECTRUM) if wanted.method == AUTO else wanted  # statistics that both use
        file = statistics_file(folder, self.networks.folder(data).name, same.name, self.train)
        method = method_named(wanted.method, pixel_std=pixel_std(preprocess))
        return average(kept(method.prepare(members, train, file), folder / "answers"))


@dataclass(frozen=True)
class ReleasedSetting:
    """Released BatchNorm ResNets, by depth, each with the methods to compare on it; several depths are an ensemble."""

    methods: Mapping[tuple[int, ...], Sequence[str]]
    images: int = 10_000
    train: int = 50_000
    batch: int = 1000
    corruptions: tuple[str, ...] = CORRUPTIONS
    severities: tuple[int, ...] = (1, 2, 3, 4, 5)
    workers: int = 2
    seed: int = 0

    def evaluate(self, metrics: Sequence[str], data: Root, folder: Path) -> Scores:
        """Score every method on every network; tables call the data after the network."""
        found = {networks_named(depths): self._evaluate(depths, metrics, data, folder) for depths in self.methods}
        provenance = {name: scores.provenance for name, scores in found.items()}
        return replace(reduce(add, found.values()), provenance=provenance)

    def _evaluate(self, depths: tuple[int, ...], metrics: Sequence[str], data: Root, folder: Path) -> Scores:
        train = released_batches(self.train, data)
        name, networks = networks_named(depths), [released(depth, data) for depth in depths]
        return evaluate(
            {
                method: _robust(method, networks, train, statistics_file(folder, name, method, self.train))
                for method in self.methods[depths]
            },
            _suite(self, data),
            metrics,
            preprocess=released_preprocess,
            batch_size=self.batch,
            folder=folder / "cells",
            workers=self.workers,
            data=f"{name} · cifar10-c",
            note={"statistics from": self.train},
        )


def _suite(of: CifarSetting | ReleasedSetting, data: Root) -> Suite:
    return cifar10_c(data, corruptions=of.corruptions, severities=of.severities, limit=of.images, seed=of.seed)


def joined(scores: Scores, others: Scores) -> Scores:
    """Scores of two settings in one table; how the second ones were made stands under "posteriors"."""
    left_out = {**scores.provenance[LEFT_OUT], **others.provenance[LEFT_OUT]}
    provenance = {**scores.provenance, "posteriors": others.provenance, LEFT_OUT: left_out}
    return replace(scores + others, provenance=provenance)


def _robust(method: str, networks: Sequence[nn.Module], train: LazySequence[Tensor], file: Path) -> Predictor:
    """Networks of several architectures made robust each for itself, and averaged."""
    chosen = method_named(method, pixel_std=pixel_std(released_preprocess))
    if len(networks) == 1:
        return predictor(chosen, networks[0], train, path=file)
    return average([chosen(network, train) for network in networks])


def networks_named(depths: Sequence[int]) -> str:
    """What tables call released networks.

    >>> networks_named((20, 32))
    'resnet20 + resnet32'
    """
    return " + ".join(f"resnet{depth}" for depth in depths)


def released(depth: int, data: Root = None) -> nn.Module:
    """The network that Y. Idelbayev has released with "Proper ResNet Implementation for CIFAR10", of that depth."""
    network = build("cifar_resnet", depth=depth)
    network.load_state_dict(load_file(weights_file(f"resnet{depth}.safetensors", data)))
    return network.eval()


def released_statistics(depth: int, images: int, data: Root, folder: Path) -> tuple[nn.Module, Statistics]:
    """A released network and its spectra on the first training images, which are measured once."""
    network, file = released(depth, data), statistics_file(folder, networks_named((depth,)), "spectra", images)
    if not file.exists():
        fit(network, released_batches(images, data)).save(file)
    return network, Statistics.load(file)


def released_batches(images: int, data: Root) -> LazySequence[Tensor]:
    """The first training images of CIFAR-10, as released networks take them."""
    return first_batches(load("cifar10", "train", root=data), images, released_preprocess, size=RELEASED_PIECE)


def weights_file(name: str, data: Root = None) -> Path:
    """A file of released weights: in $SHIFTMATCH_WEIGHTS, else in `weights` below the data folder."""
    folder = Path(os.environ.get("SHIFTMATCH_WEIGHTS") or data_folder(data) / "weights")
    if not (file := folder / name).is_file():
        raise DataNotFoundError(
            f"{file} does not exist. Put the released weights there as safetensors (those of CIFAR ResNets: "
            f"github.com/akamaster/pytorch_resnet_cifar10), or set SHIFTMATCH_WEIGHTS to the folder that they are in."
        )
    return file


def pixel_std(preprocessing: Preprocessing) -> float:
    """What pixels from 0 to 1 are divided by, in the mean of the channels: the unit of the paper's constants.

    >>> pixel_std(Preprocessing(std=(0.1, 0.3)))
    0.2
    """
    return sum(preprocessing.std) / len(preprocessing.std)


def first_batches(source: Labelled, count: int, preprocess: Preprocessing, *, size: int) -> LazySequence[Tensor]:
    """The first `count` images, in nearly equal batches of at most `size` that are read when they are asked for.

    >>> digits = Labelled(torch.zeros(9, 1, 4, 4, dtype=torch.uint8), torch.arange(9), "digits", "made up")
    >>> [len(batch) for batch in first_batches(digits, 5, Preprocessing(), size=3)]
    [3, 2]
    """
    index = torch.arange(min(count, len(source)))
    return prepared_batches(source.images, index, preprocess, batch_size=size)


def statistics_file(folder: Path, network: str, method: str, images: int) -> Path:
    """Where the statistics of a network for a method are kept.

    >>> statistics_file(Path("runs"), "resnet20", "ShiftMatch: input only", 100).name
    'ShiftMatch_input_only-100.safetensors'
    """
    return folder / "statistics" / network / f"{unsafe_characters.sub('_', method)}-{images}.safetensors"
