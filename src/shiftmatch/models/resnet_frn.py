"""ResNet-20 with filter response normalisation and swish: the network of the published HMC samples."""

from collections import OrderedDict
from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from shiftmatch.models.layers import FilterResponseNorm, SameConv2d
from shiftmatch.shapes import Images, Resized


def _unit(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    layers = OrderedDict(conv=SameConv2d(inputs, outputs, kernel, stride), frn=FilterResponseNorm(outputs))
    return nn.Sequential(layers)


class Block(nn.Module):
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
        self.blocks = nn.Sequential(*(Block(*pair) for pair in pairwise(widths)))
        self.linear = nn.Linear(widths[-1], classes)

    def forward(self, x: Images) -> Float[Tensor, "b k"]:
        x = self.blocks(self.act(self.stem(x)))
        logits: Tensor = self.linear(functional.avg_pool2d(x, 8).flatten(1))
        return logits
