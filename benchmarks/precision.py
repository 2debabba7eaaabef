"""How often bf16 autocast and float32 agree, on real images: the released ResNet-20 on corrupted CIFAR-10."""

import torch
from benchmarks.harness import Cases, Settings
from benchmarks.networks import cifar, prepared, released_resnet20
from torch import Tensor, nn

import shiftmatch as sm

IMAGES, BATCH, TRAIN = 2000, 200, 1000
CORRUPTIONS = ("gaussian_noise", "defocus_blur", "contrast", "jpeg_compression")


@torch.no_grad()
def run(settings: Settings) -> Cases:
    """The share of 2,000 test images, 500 of each corruption at severity 3, with the same top-1 class."""
    network, (train, _), (test, right) = released_resnet20(), cifar("train", TRAIN), cifar("test", IMAGES)
    robust = sm.match(network, sm.fit(network, prepared(train), progress=False))
    parts = test.split(IMAGES // len(CORRUPTIONS))
    pixels = [sm.corrupt(some, kind, severity=3) for some, kind in zip(parts, CORRUPTIONS, strict=True)]
    inputs = [part for some in pixels for part in prepared(some).split(BATCH)]
    exact = _classes(robust, inputs)
    with torch.autocast("cpu", torch.bfloat16):
        found = _classes(robust, inputs)
    return {
        f"ResNet-20, CIFAR-10, {len(CORRUPTIONS)} corruptions, {IMAGES} images": {
            "top-1 agreement of bf16 autocast with float32, %": 100 * float((found == exact).float().mean()),
            "accuracy, float32, %": 100 * float((exact == right).float().mean()),
            "accuracy, bf16 autocast, %": 100 * float((found == right).float().mean()),
        }
    }


def _classes(model: nn.Module, inputs: list[Tensor]) -> Tensor:
    return torch.cat([model(part).argmax(-1) for part in inputs])
