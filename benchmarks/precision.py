"""How often bf16 autocast and float32 agree, on real images: the released ResNet-20 on corrupted CIFAR-10."""

import os
from pathlib import Path

import torch
from benchmarks.harness import Cases, Settings
from torch import Tensor, nn

import shiftmatch as sm

IMAGES, BATCH, TRAIN = 2000, 200, 1000
CORRUPTIONS = ("gaussian_noise", "defocus_blur", "contrast", "jpeg_compression")
SHARED = Path(os.environ.get("SHIFTMATCH_SHARED", Path(__file__).parents[2] / "shared"))
"""Where weights/resnet20.safetensors is; the images are those of the data folder."""


@torch.no_grad()
def run(settings: Settings) -> Cases:
    """The share of 2,000 test images, 500 of each corruption at severity 3, with the same top-1 class."""
    name = "cifar_resnet"
    network = sm.models.build(name, depth=20).eval()
    sm.models.load_weights(network, SHARED / "data" / "weights" / "resnet20.safetensors")
    prepare = sm.models.Architecture(name).preprocessing
    assert prepare is not None
    train, test = (sm.data.load("cifar10", split, limit=count) for split, count in (("train", TRAIN), ("test", IMAGES)))
    robust = sm.match(network, sm.fit(network, prepare(train.images[torch.arange(TRAIN)]), progress=False))
    share = IMAGES // len(CORRUPTIONS)
    parts = torch.arange(IMAGES).split(share)
    pixels = [sm.corrupt(test.images[i], kind, severity=3) for i, kind in zip(parts, CORRUPTIONS, strict=True)]
    inputs = [part for some in pixels for part in prepare(some).split(BATCH)]
    exact = _classes(robust, inputs)
    with torch.autocast("cpu", torch.bfloat16):
        found = _classes(robust, inputs)
    right = test.labels[:IMAGES]
    return {
        f"ResNet-20, CIFAR-10, {len(CORRUPTIONS)} corruptions, {IMAGES} images": {
            "top-1 agreement of bf16 autocast with float32, %": 100 * float((found == exact).float().mean()),
            "accuracy, float32, %": 100 * float((exact == right).float().mean()),
            "accuracy, bf16 autocast, %": 100 * float((found == right).float().mean()),
        }
    }


def _classes(model: nn.Module, inputs: list[Tensor]) -> Tensor:
    return torch.cat([model(part).argmax(-1) for part in inputs])
