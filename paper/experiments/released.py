"""Released CIFAR ResNets with BatchNorm, trained with augmentation, on CIFAR-10-C."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import load_file
from torch import nn

from paper.experiments.experiment import Root
from paper.experiments.inputs import first_batches, statistics_file
from shiftmatch.corruptions import PAPER
from shiftmatch.data.inventory import load
from shiftmatch.errors import DataNotFoundError
from shiftmatch.evaluation.evaluate import evaluate
from shiftmatch.evaluation.methods import method_named, predictor
from shiftmatch.evaluation.scores import Scores
from shiftmatch.evaluation.suites import cifar10_c
from shiftmatch.models import build
from shiftmatch.models.preprocessing import Preprocessing
from shiftmatch.utils.files import data_folder

preprocess = Preprocessing(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
PIXEL_STD = 0.226
"""The mean of what the pixels are divided by."""

PIECE = 500
"""Training images per batch, when statistics are measured; BatchNorm on batch statistics sees so many together."""


@dataclass(frozen=True)
class ReleasedSetting:
    """The networks by depth, each with the methods to compare on it, and the images."""

    methods: Mapping[int, Sequence[str]]
    images: int = 10_000
    train: int = 50_000
    batch: int = 1000
    corruptions: tuple[str, ...] = PAPER
    severities: tuple[int, ...] = (1, 2, 3, 4, 5)
    workers: int = 2
    seed: int = 0

    def evaluate(self, metrics: Sequence[str], data: Root, folder: Path) -> Scores:
        """Score every method on every network; tables call the data after the network."""
        found = [self._evaluate(depth, metrics, data, folder) for depth in self.methods]
        rows = [row for scores in found for row in scores]
        return Scores(rows, {f"resnet{d}": scores.provenance for d, scores in zip(self.methods, found, strict=True)})

    def _evaluate(self, depth: int, metrics: Sequence[str], data: Root, folder: Path) -> Scores:
        network = released(depth, data)
        train = first_batches(load("cifar10", "train", root=data), self.train, preprocess, size=PIECE)
        methods = {
            name: predictor(
                method_named(name, pixel_std=PIXEL_STD),
                network,
                train,
                path=statistics_file(folder, f"resnet{depth}", name, self.train),
            )
            for name in self.methods[depth]
        }
        return evaluate(
            methods,
            cifar10_c(
                data, corruptions=self.corruptions, severities=self.severities, limit=self.images, seed=self.seed
            ),
            metrics,
            preprocess=preprocess,
            batch_size=self.batch,
            folder=folder / "cells",
            workers=self.workers,
            data=f"resnet{depth} · cifar10-c",
            note={"statistics from": self.train},
        )


def released(depth: int, data: Root = None) -> nn.Module:
    """The network that Y. Idelbayev has released with "Proper ResNet Implementation for CIFAR10", of that depth."""
    network = build("cifar_resnet", depth=depth)
    network.load_state_dict(load_file(weights_file(f"resnet{depth}.safetensors", data)))
    return network.eval()


def weights_file(name: str, data: Root = None) -> Path:
    """A file of released weights: in $SHIFTMATCH_WEIGHTS, else in `weights` below the data folder."""
    folder = Path(os.environ.get("SHIFTMATCH_WEIGHTS") or data_folder(data) / "weights")
    if not (file := folder / name).is_file():
        raise DataNotFoundError(
            f"{file} does not exist. Put the released weights there as safetensors (those of CIFAR ResNets: "
            f"github.com/akamaster/pytorch_resnet_cifar10), or set SHIFTMATCH_WEIGHTS to the folder that they are in."
        )
    return file
