"""The multilayer perceptron of the MNIST experiments."""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from shiftmatch.models.layers import FlattenRows, activation


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
