"""Small networks, each with one thing that makes placing sites hard."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812


class GroupNormNet(nn.Module):
    """GroupNorm, and functional activations."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8)
        self.conv2, self.norm2 = nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(2, 8)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.norm1(self.conv1(x)))
        x = self.norm2(self.conv2(x))
        return self.head((x * torch.sigmoid(x)).mean((2, 3)))


class FusedNormAct(nn.BatchNorm2d):
    """Normalises and activates in one module."""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(super().forward(x), inplace=True)


class FusedNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), FusedNormAct(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.conv(x)).mean((2, 3)))


class Bottleneck(nn.Module):
    """A residual block with a projection on the shortcut, added in place."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.conv2, self.bn2 = nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.downsample = nn.Sequential(nn.Conv2d(3, 6, 1), nn.BatchNorm2d(6))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += self.downsample(x)
        return self.relu(out)


class InPlaceNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block, self.head = Bottleneck(), nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.block(x).mean((2, 3)))


class PreActivationNet(nn.Module):
    """Norm and activation come before the convolution, as in the second ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.bn1, self.conv1 = nn.BatchNorm2d(6), nn.Conv2d(6, 6, 3, padding=1)
        self.bn2, self.conv2 = nn.BatchNorm2d(6), nn.Conv2d(6, 6, 3, padding=1)
        self.bn3, self.head = nn.BatchNorm2d(6), nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = x + self.conv2(F.relu(self.bn2(self.conv1(F.relu(self.bn1(x))))))
        return self.head(F.relu(self.bn3(x)).mean((2, 3)))


class GatedNet(nn.Module):
    """Squeeze and excitation: a side branch that multiplies the main one."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.squeeze, self.excite = nn.Conv2d(8, 2, 1), nn.Conv2d(2, 8, 1)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv(x))
        gate = torch.sigmoid(self.excite(F.relu(self.squeeze(x.mean((2, 3), keepdim=True)))))
        return self.head((x * gate).mean((2, 3)))


class RawNet(nn.Module):
    """No submodules: everything is a function of raw parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.w1, self.w2 = nn.Parameter(torch.randn(7, 12) / 3), nn.Parameter(torch.randn(6, 7) / 3)
        self.w3 = nn.Parameter(torch.randn(5, 6) / 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(F.linear(x.flatten(1), self.w1))
        return F.linear(torch.relu(F.linear(x, self.w2)), self.w3)


class SharedNet(nn.Module):
    """One layer, called twice; and a module with the name of the input site."""

    def __init__(self) -> None:
        super().__init__()
        self.input, self.conv, self.head = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 3, padding=1), nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv(F.relu(self.conv(F.relu(self.input(x))))))
        return self.head(x.mean((2, 3)))


class BranchingNet(nn.Module):
    """Takes one of two ways, by what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3)
        self.bright, self.dark, self.head = nn.Conv2d(4, 4, 3), nn.Conv2d(4, 4, 3), nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        way = self.bright if x.mean() > 0 else self.dark
        return self.head(F.relu(way(F.relu(self.stem(x)))).mean((2, 3)))


@dataclass
class Output:
    logits: Tensor
    features: Tensor


class TwoInputNet(nn.Module):
    """Images and a vector in, a dataclass out."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.dense, self.head = nn.Conv2d(3, 4, 3), nn.Linear(6, 4), nn.Linear(8, 5)

    def forward(self, image: Tensor, facts: Tensor, scale: float = 1.0) -> Output:
        seen = F.relu(self.conv(image)).mean((2, 3))
        features = torch.cat([seen, F.relu(self.dense(facts))], dim=1) * scale
        return Output(self.head(features), features)


class SmallBatchNormNet(nn.Module):
    """Two convolutions with BatchNorm, and nothing that is hard, for 3 × 8 × 8 images."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.conv1, self.bn1 = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.conv2, self.bn2 = nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6)
        self.head = nn.Linear(6 * 4 * 4, 5)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))))
        return self.head(x.flatten(1))
