"""A data folder with a little of everything that the experiments read, made up."""

from pathlib import Path

import torch
from made_sets import make_images, make_labels, write_cifar10, write_cifar10_train, write_idx, write_mnist
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from shiftmatch.models import build
from shiftmatch.models.layers import initialise

PICTURES = 6


def write_data_sets(root: Path) -> None:
    write_cifar10(root)
    write_cifar10_train(root)
    write_mnist(root)
    write_idx(root / "mnist" / "train-images-idx3-ubyte", make_images(40, 28, 28))
    write_idx(root / "mnist" / "train-labels-idx1-ubyte", make_labels(40))
    write_idx(root / "fashion-mnist" / "t10k-images-idx3-ubyte", make_images(20, 28, 28))
    write_idx(root / "fashion-mnist" / "t10k-labels-idx1-ubyte", make_labels(20))
    (root / "weights").mkdir()
    network = initialise(build("cifar_resnet", depth=8), torch.Generator().manual_seed(0), gain=2.0)
    save_file(network.state_dict(), root / "weights" / "resnet8.safetensors")
    (root / "imagenet-sample").mkdir()
    for number in range(PICTURES):
        Image.fromarray(make_images(number + 1, 224, 224, 3)[-1]).save(root / "imagenet-sample" / f"{number:04}.jpg")


def small_network() -> nn.Module:
    """For images of any size, with BatchNorm."""
    layers = (nn.Conv2d(3, 4, 7, 8), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return initialise(nn.Sequential(*layers, nn.Linear(4, 10)), torch.Generator().manual_seed(0)).eval()
