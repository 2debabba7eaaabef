"""The twin of a network: modules of its own, tensors that are shared.

Hooks, modes and attributes that a twin gets are its own, so the network that it is made from is never touched.
"""

from collections import OrderedDict
from functools import partial
from types import MethodType
from typing import Any, TypeVar

import torch
from torch import nn

from shiftmatch.errors import InputError

T = TypeVar("T")


def twin_of(model: nn.Module) -> nn.Module:
    """A copy of the module tree, in evaluation mode, that shares every tensor with the model.

    >>> net = nn.Linear(2, 2).train()
    >>> twin = twin_of(net)
    >>> twin.weight is net.weight, twin is net, twin.training, net.training
    (True, False, False, True)
    """
    if isinstance(model, torch.jit.ScriptModule):
        raise InputError(
            "A scripted or traced module hides its layers, so no site can be found in it. Pass the nn.Module that it "
            "was made from; the matched network can be exported afterwards."
        )
    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    twin: nn.Module = _twin(model, {})
    return twin.eval()


class EvalModel(nn.Module):
    """A network that is always in evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.training = False

    def train(self: T, mode: bool = True) -> T:
        """Stays in evaluation mode."""
        return self


class TwinModel(EvalModel):
    """Around a twin, its `network`, whose attributes it has as well."""

    network: nn.Module

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_") or "network" not in self._modules:
                raise
            return getattr(self._modules["network"], name)

    def _apply(self, fn, recurse=True):  # type: ignore[no-untyped-def]
        """Moving or converting this network does not change the one that it shares its weights with."""
        unshare(self.network)
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]


def unshare(network: nn.Module) -> None:
    """Parameters of its own, over the same memory until they are converted."""
    own: dict[int, nn.Parameter] = {}
    for module in network.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                new = own.setdefault(id(parameter), nn.Parameter(parameter.detach(), parameter.requires_grad))
                module._parameters[name] = new


def _twin(value: Any, known: dict[int, Any]) -> Any:
    """The same value with every module in it replaced by its twin; tensors and all else are shared."""
    if id(value) in known:
        return known[id(value)]
    same = value
    match value:
        case nn.Module():
            same = known[id(value)] = object.__new__(type(value))
            vars(same).update({name: _twin(part, known) for name, part in vars(value).items()})
        case dict() if type(value) in (dict, OrderedDict):
            same = type(value)((key, _twin(part, known)) for key, part in value.items())
        case list() | set() | tuple() if type(value) in (list, set, tuple):
            same = type(value)(_twin(part, known) for part in value)
        case MethodType():
            same = MethodType(value.__func__, _twin(value.__self__, known))
        case partial():
            args, keywords = _twin(list(value.args), known), _twin(value.keywords, known)
            same = partial(_twin(value.func, known), *args, **keywords)
    return same
