"""ResNet-50 with the layer names of the weights that are commonly published for it (stride on the 3×3)."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from shiftmatch.shapes import Images, Resized

EXPANSION = 4


class Bottleneck(nn.Module):
    """1×1 down, 3×3, 1×1 up, each with BatchNorm, around a shortcut that is projected where the shape changes."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * EXPANSION
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu2 = nn.ReLU()
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample = nn.Identity() if inputs == outputs else _projection(inputs, outputs, stride)
        self.relu3 = nn.ReLU()

    def forward(self, x: Images) -> Resized:
        out = self.relu1(self.bn1(self.conv1(x)))
        out = self.relu2(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        summed: Tensor = self.relu3(out + self.downsample(x))
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
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        self.layer1 = _stack(64, 64, 3, stride=1)
        self.layer2 = _stack(256, 128, 4, stride=2)
        self.layer3 = _stack(512, 256, 6, stride=2)
        self.layer4 = _stack(1024, 512, 3, stride=2)
        self.fc = nn.Linear(512 * EXPANSION, classes)

    def forward(self, x: Images) -> Float[Tensor, "b k"]:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(functional.adaptive_avg_pool2d(x, 1).flatten(1))
        return logits


def _projection(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


def _stack(inputs: int, width: int, blocks: int, stride: int) -> nn.Sequential:
    rest = (Bottleneck(width * EXPANSION, width, 1) for _ in range(blocks - 1))
    return nn.Sequential(Bottleneck(inputs, width, stride), *rest)
