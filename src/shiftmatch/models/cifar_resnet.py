"""The CIFAR ResNet of He et al. (2016, section 4.2) with BatchNorm: 6n + 2 layers, widths 16, 32, 64."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from shiftmatch.errors import InputError
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
