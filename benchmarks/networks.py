"""What the benchmarks run: ResNet-20 on 32×32 images, ResNet-50 on 224×224, with weights and images at random.

Speed does not depend on the weights, so none have to be downloaded.
"""

from importlib import import_module

import torch
from torch import Tensor, nn

import shiftmatch as sm


def resnet20() -> nn.Module:
    """ResNet-20 for CIFAR."""
    torch.manual_seed(0)
    return sm.models.build("cifar_resnet", depth=20).eval()


def resnet50() -> nn.Module:
    """ResNet-50 for ImageNet."""
    torch.manual_seed(0)
    return sm.models.build("resnet50").eval()


def efficientnet_lite0() -> nn.Module:
    """EfficientNet-Lite0, from a package of the index that is installed with --no-deps."""
    torch.manual_seed(0)
    network: nn.Module = import_module("efficientnet_lite_pytorch").EfficientNet.from_name("efficientnet-lite0")
    return network.eval()


def images(count: int, channels: int, side: int) -> Tensor:
    """Images of noise."""
    return torch.randn(count, channels, side, side, generator=torch.Generator().manual_seed(0))


def matched(network: nn.Module, x: Tensor) -> sm.MatchedModel:
    """The network matched to those images, as it comes."""
    return sm.match(network, sm.fit(network, x.split(100), progress=False))
