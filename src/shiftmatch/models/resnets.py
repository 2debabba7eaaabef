"""The residual networks of the experiments: CIFAR ResNets and ResNet-50 with BatchNorm, and ResNet-20 with FRN."""

from collections import OrderedDict
from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from shiftmatch.errors import InputError
from shiftmatch.models.layers import FilterResponseNorm, SameConv2d
from shiftmatch.shapes import Images, Resized

WIDTHS = (16, 32, 64)


class PadShortcut(nn.Module):
    """A shortcut without parameters ("option A"): drop every second row and column, pad the channels with zeros."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.margin = (outputs - inputs) // 2

    def forward(self, x: Images) -> Resized:
        return functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.margin, self.margin))


class Block(nn.Module):
    """Two 3×3 convolutions, each followed by BatchNorm, and a shortcut around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity() if inputs == outputs else PadShortcut(inputs, outputs)
        self.relu2 = nn.ReLU()

    def forward(self, x: Images) -> Resized:
        out: Tensor = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x)))))
        out += self.shortcut(x)
        activated: Tensor = self.relu2(out)
        return activated


class CifarResNet(nn.Module):
    """ResNet-20 for depth 20, ResNet-32 for depth 32, and so on; depth = 6n + 2.

    >>> sum(p.numel() for p in CifarResNet(20).parameters())
    269722
    """

    def __init__(self, depth: int = 20, *, classes: int = 10, channels: int = 3) -> None:
        super().__init__()
        blocks, rest = divmod(depth - 2, 6)
        if rest or blocks < 1:
            raise InputError(f"A CIFAR ResNet has 6n + 2 layers, such as 20 or 32; depth={depth} is not of that form.")
        self.conv1 = nn.Conv2d(channels, WIDTHS[0], 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(WIDTHS[0])
        self.relu = nn.ReLU()
        self.layer1 = _stack(WIDTHS[0], WIDTHS[0], blocks)
        self.layer2 = _stack(WIDTHS[0], WIDTHS[1], blocks)
        self.layer3 = _stack(WIDTHS[1], WIDTHS[2], blocks)
        self.linear = nn.Linear(WIDTHS[2], classes)

    def forward(self, x: Images) -> Float[Tensor, "b k"]:
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        logits: Tensor = self.linear(x.mean((-2, -1)))
        return logits


def _stack(inputs: int, outputs: int, blocks: int) -> nn.Sequential:
    first = Block(inputs, outputs, stride=1 if inputs == outputs else 2)
    return nn.Sequential(first, *(Block(outputs, outputs, stride=1) for _ in range(blocks - 1)))


EXPANSION = 4


class Bottleneck(nn.Module):
    """1×1 down, 3×3, 1×1 up, each with BatchNorm, around a shortcut that is projected where the shape changes."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * EXPANSION
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample = nn.Identity() if inputs == outputs else _projection(inputs, outputs, stride)
        self.relu3 = nn.ReLU(inplace=True)

    def forward(self, x: Images) -> Resized:
        shortcut = self.downsample(x)  # first, and added in place: less memory at the widest place
        out = self.relu1(self.bn1(self.conv1(x)))
        out = self.relu2(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += shortcut
        summed: Tensor = self.relu3(out)
        return summed


class ResNet50(nn.Module):
    """Stem 7×7 with pooling, then 3, 4, 6 and 3 bottlenecks.

    >>> sum(p.numel() for p in ResNet50().parameters())
    25557032
    """

    def __init__(self, *, classes: int = 1000, channels: int = 3) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        self.layer1 = _bottlenecks(64, 64, 3, stride=1)
        self.layer2 = _bottlenecks(256, 128, 4, stride=2)
        self.layer3 = _bottlenecks(512, 256, 6, stride=2)
        self.layer4 = _bottlenecks(1024, 512, 3, stride=2)
        self.fc = nn.Linear(512 * EXPANSION, classes)

    def forward(self, x: Images) -> Float[Tensor, "b k"]:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(functional.adaptive_avg_pool2d(x, 1).flatten(1))
        return logits


def _projection(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


def _bottlenecks(inputs: int, width: int, blocks: int, stride: int) -> nn.Sequential:
    rest = (Bottleneck(width * EXPANSION, width, 1) for _ in range(blocks - 1))
    return nn.Sequential(Bottleneck(inputs, width, stride), *rest)


def _unit(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    layers = OrderedDict(conv=SameConv2d(inputs, outputs, kernel, stride), frn=FilterResponseNorm(outputs))
    return nn.Sequential(layers)


class FRNBlock(nn.Module):
    """swish(shortcut + unit(swish(unit(x)))); the layers are created in the order in which Haiku numbered them."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        stride = 1 if inputs == outputs else 2
        self.unit1 = _unit(inputs, outputs, 3, stride)
        self.act1 = nn.SiLU()
        self.unit2 = _unit(outputs, outputs, 3)
        self.shortcut = nn.Identity() if stride == 1 else _unit(inputs, outputs, 1, stride)
        self.act2 = nn.SiLU()

    def forward(self, x: Images) -> Resized:
        out: Tensor = self.act2(self.shortcut(x) + self.unit2(self.act1(self.unit1(x))))
        return out


class ResNetFRN(nn.Module):
    """Stem, three stacks of three blocks with widths 16, 32, 64, an 8×8 average pool and a linear head.

    >>> sum(p.numel() for p in ResNetFRN().parameters())
    274042
    """

    def __init__(self, *, classes: int = 10, channels: int = 3, blocks: int = 3) -> None:
        super().__init__()
        self.stem = _unit(channels, 16, 3)
        self.act = nn.SiLU()
        widths = [16] * (blocks + 1) + [32] * blocks + [64] * blocks
        self.blocks = nn.Sequential(*(FRNBlock(*pair) for pair in pairwise(widths)))
        self.linear = nn.Linear(widths[-1], classes)

    def forward(self, x: Images) -> Float[Tensor, "b k"]:
        x = self.blocks(self.act(self.stem(x)))
        logits: Tensor = self.linear(functional.avg_pool2d(x, 8).flatten(1))
        return logits
