"""Networks by name and settings, so that a file can say which network its numbers belong to; LeNet and the MLP."""

import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

from torch import nn

from shiftmatch.errors import InputError
from shiftmatch.models.layers import FlattenRows, activation
from shiftmatch.models.preprocessing import Preprocessing
from shiftmatch.models.resnets import CifarResNet, ResNet50, ResNetFRN


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


NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "lenet": lenet,
    "mlp": mlp,
    "resnet20_frn": ResNetFRN,
    "cifar_resnet": CifarResNet,
    "cifar_resnet32": partial(CifarResNet, depth=32),
    "resnet50": ResNet50,
}

_DIGITS = Preprocessing((0.1307,), (0.3081,), size=28, grey=True)
_IMAGENET = Preprocessing((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), size=224, resize=256)
_CIFAR = replace(_IMAGENET, size=32, resize=None)
PREPROCESSING: dict[str, Preprocessing] = {
    "lenet": _DIGITS,
    "mlp": _DIGITS,
    "resnet20_frn": Preprocessing((0.49, 0.48, 0.44), (0.2, 0.2, 0.2), size=32),
    "cifar_resnet": _CIFAR,
    "cifar_resnet32": _CIFAR,
    "resnet50": _IMAGENET,
}
"""What the released weights of each network, and the posteriors of the experiments, were trained with."""


@dataclass(frozen=True)
class Architecture:
    """The name of a network and the settings that it is built with.

    Args:
        name: one of `names()`.
        settings: arguments of its constructor.

    >>> Architecture("lenet", {"nonlinearity": "tanh"}).build().act1
    Tanh()
    >>> Architecture("cifar_resnet").preprocessing.mean
    (0.485, 0.456, 0.406)
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def build(self) -> nn.Module:
        """The network, with weights drawn at random."""
        return build(self.name, **self.settings)

    @property
    def preprocessing(self) -> Preprocessing:
        """From pixels to the inputs that the network's released weights were trained on."""
        known = PREPROCESSING[_checked(self.name)]
        grey = self.settings.get("channels", 1 if known.grey else 3) == 1
        return replace(known, size=self.settings.get("size", known.size), grey=grey)


def names() -> tuple[str, ...]:
    """The networks that `build` knows.

    >>> names()
    ('lenet', 'mlp', 'resnet20_frn', 'cifar_resnet', 'cifar_resnet32', 'resnet50')
    """
    return tuple(NETWORKS)


def build(name: str, **settings: Any) -> nn.Module:
    """A network by name, with the defaults of the experiments unless a setting says otherwise.

    Args:
        name: one of `names()`.
        **settings: arguments of its constructor.

    >>> build("cifar_resnet", depth=32).linear
    Linear(in_features=64, out_features=10, bias=True)
    """
    network = NETWORKS[_checked(name)]
    known = inspect.signature(network).parameters
    unknown = sorted(settings.keys() - known.keys())
    if unknown:
        raise InputError(f"{name} has no setting {unknown[0]!r}; it has {', '.join(known)}.")
    return network(**settings)


def _checked(name: str) -> str:
    if name not in NETWORKS:
        raise InputError(
            f"There is no network {name!r}; shiftmatch has {', '.join(NETWORKS)}. A network of your own is named as "
            f"module:function or file.py:function."
        )
    return name
