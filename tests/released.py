"""The released ResNet-20 and the images it was made for."""

from collections.abc import Callable

import torch
from jaxtyping import Int, UInt8
from safetensors.torch import load_file
from shared_data import SHARED
from torch import Tensor, nn

from shiftmatch import data, models

MEAN, STD = torch.tensor([0.485, 0.456, 0.406])[:, None, None], torch.tensor([0.229, 0.224, 0.225])[:, None, None]


def resnet20() -> nn.Module:
    model = models.build("cifar_resnet", depth=20)
    model.load_state_dict(load_file(SHARED / "weights" / "resnet20.safetensors"))
    return model.eval()


def cifar(split: str, count: int) -> tuple[UInt8[Tensor, "b c h w"], Int[Tensor, "b"]]:
    """The first images of CIFAR-10 and their labels."""
    first = data.load("cifar10", split, limit=count)
    return first.images[torch.arange(count)], first.labels


def normalised(pixels: Tensor) -> Tensor:
    """Pixels from 0 to 255 as the network takes them."""
    return (pixels / 255 - MEAN) / STD


@torch.no_grad()
def accuracy(predict: Callable[[Tensor], Tensor], pixels: Tensor, labels: Tensor, *, batch: int) -> float:
    """Percent of the images that are classified correctly, in batches of that size."""
    predicted = [predict(normalised(part)).argmax(1) for part in pixels.split(batch)]
    return 100 * float((torch.cat(predicted) == labels).float().mean())
