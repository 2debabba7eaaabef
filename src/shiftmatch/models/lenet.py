"""LeNet as in the MNIST experiments: two convolutions and three dense layers, with average pooling."""

from collections import OrderedDict

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
