"""The networks of the MNIST experiments: LeNet and a multilayer perceptron."""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from shiftmatch.models.layers import FlattenRows, activation


def lenet(*, classes: int = 10, channels: int = 1, size: int = 28, nonlinearity: str = "relu") -> nn.Sequential:
    """Images of `size`×`size` pixels in, logits out; every layer has a name of its own.

    >>> sum(p.numel() for p in lenet().parameters()), sum(p.numel() for p in lenet(channels=3, size=32).parameters())
    (61706, 83126)
    """
    side = (size // 2 - 4) // 2
    layers: list[tuple[str, nn.Module]] = [
        ("conv1", nn.Conv2d(channels, 6, 5, padding=2)),
        ("act1", activation(nonlinearity)),
        ("pool1", nn.AvgPool2d(2)),
        ("conv2", nn.Conv2d(6, 16, 5)),
        ("act2", activation(nonlinearity)),
        ("pool2", nn.AvgPool2d(2)),
        ("flatten", FlattenRows()),
        ("dense1", nn.Linear(16 * side * side, 120)),
        ("act3", activation(nonlinearity)),
        ("dense2", nn.Linear(120, 84)),
        ("act4", activation(nonlinearity)),
        ("dense3", nn.Linear(84, classes)),
    ]
    return nn.Sequential(OrderedDict(layers))


def mlp(
    *, classes: int = 10, inputs: int = 784, hidden: Sequence[int] = (256, 256), nonlinearity: str = "relu"
) -> nn.Sequential:
    """Dense layers `dense1`, `dense2`, … with a nonlinearity between them.

    >>> sum(p.numel() for p in mlp().parameters())
    269322
    """
    layers: list[tuple[str, nn.Module]] = [("flatten", FlattenRows())]
    for index, (before, after) in enumerate(pairwise((inputs, *hidden)), start=1):
        layers += [(f"dense{index}", nn.Linear(before, after)), (f"act{index}", activation(nonlinearity))]
    last = hidden[-1] if hidden else inputs
    layers.append((f"dense{len(hidden) + 1}", nn.Linear(last, classes)))
    return nn.Sequential(OrderedDict(layers))
