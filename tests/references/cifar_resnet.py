"""The CIFAR ResNet of He et al. with parameter-free shortcuts, for judging corruptions by a network's accuracy."""

from pathlib import Path

import torch
from jaxtyping import Int, UInt8
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
IMAGE_BYTES = 3 * 32 * 32


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.stride, self.extra = stride, (outputs - inputs) // 2

    def forward(self, x: Tensor) -> Tensor:
        shortcut = functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.extra, self.extra))
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(y + shortcut)


class CifarResNet(nn.Module):
    def __init__(self, blocks: int = 3) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        self.layer1, self.layer2, self.layer3 = (
            nn.Sequential(Block(i, o, s), *(Block(o, o, 1) for _ in range(blocks - 1)))
            for i, o, s in ((16, 16, 1), (16, 32, 2), (32, 64, 2))
        )
        self.linear = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.bn1(self.conv1(x)))
        logits: Tensor = self.linear(self.layer3(self.layer2(self.layer1(x))).mean((2, 3)))
        return logits


def resnet20(weights: Path) -> CifarResNet:
    model = CifarResNet()
    model.load_state_dict(load_file(weights))
    return model.eval()


@torch.no_grad()
def accuracy(model: nn.Module, images: UInt8[Tensor, "b c h w"], labels: Int[Tensor, "b"]) -> float:
    """Percent of the images that the network classifies correctly."""
    mean, std = (torch.tensor(values)[:, None, None] for values in (MEAN, STD))
    batches = (images[start : start + 250] for start in range(0, len(images), 250))
    predicted = [model((batch / 255 - mean) / std).argmax(1) for batch in batches]
    return 100 * (torch.cat(predicted) == labels).float().mean().item()


def cifar_test(folder: Path, count: int) -> tuple[UInt8[Tensor, "b c h w"], Int[Tensor, "b"]]:
    """The first images of the CIFAR-10 test set in its binary version, and their labels."""
    content = bytearray((folder / "test_batch.bin").read_bytes()[: count * (IMAGE_BYTES + 1)])
    rows = torch.frombuffer(content, dtype=torch.uint8).reshape(-1, IMAGE_BYTES + 1)
    return rows[:, 1:].reshape(-1, 3, 32, 32).contiguous(), rows[:, 0].long()
