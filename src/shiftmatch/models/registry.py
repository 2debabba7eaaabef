"""Networks by name and settings, so that a file can say which network its numbers belong to."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from shiftmatch.errors import InputError
from shiftmatch.models.cifar_resnet import CifarResNet
from shiftmatch.models.lenet import lenet
from shiftmatch.models.mlp import mlp
from shiftmatch.models.resnet50 import ResNet50
from shiftmatch.models.resnet_frn import ResNetFRN

NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "lenet": lenet,
    "mlp": mlp,
    "resnet20_frn": ResNetFRN,
    "cifar_resnet": CifarResNet,
    "resnet50": ResNet50,
}


@dataclass(frozen=True)
class Architecture:
    """The name of a network and the settings that it is built with.

    >>> Architecture("lenet", {"nonlinearity": "tanh"}).build().act1
    Tanh()
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def build(self) -> nn.Module:
        return build(self.name, **self.settings)


def names() -> tuple[str, ...]:
    """The networks that `build` knows.

    >>> names()
    ('lenet', 'mlp', 'resnet20_frn', 'cifar_resnet', 'resnet50')
    """
    return tuple(NETWORKS)


def build(name: str, **settings: Any) -> nn.Module:
    """A network by name, with the defaults of the experiments unless a setting says otherwise.

    >>> build("cifar_resnet", depth=32).linear
    Linear(in_features=64, out_features=10, bias=True)
    """
    if name not in NETWORKS:
        raise InputError(f"There is no network {name!r}; shiftmatch has {', '.join(NETWORKS)}.")
    known = inspect.signature(NETWORKS[name]).parameters
    unknown = sorted(settings.keys() - known.keys())
    if unknown:
        raise InputError(f"{name} has no setting {unknown[0]!r}; it has {', '.join(known)}.")
    return NETWORKS[name](**settings)
