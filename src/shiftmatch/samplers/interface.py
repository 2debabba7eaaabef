"""What every sampler is: a way to start and a way to go on. Randomness is handed in."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from shiftmatch.samplers.params import Params, Scalar


@runtime_checkable
class State(Protocol):
    """A NamedTuple of tensors and of mappings of tensors, one of which is `params`.

    Scalar fields are recorded after every iteration; all fields are stored, so that a run can go on after a kill.
    """

    @property
    def params(self) -> Params: ...

    def _asdict(self) -> dict[str, Tensor | Params]: ...


S = TypeVar("S", bound=State)


@dataclass(frozen=True)
class Sampler(Generic[S]):
    """`init` makes the first state from parameters, `step` the next state from the one before."""

    init: Callable[[Params], S]
    step: Callable[[S, torch.Generator], S]


@runtime_checkable
class LogDensity(Protocol):
    """log p(θ) up to a constant, and its gradient.

    A density over a data set may estimate both from a minibatch, which it draws with the generator.
    """

    def value_and_grad(self, params: Params, generator: torch.Generator) -> tuple[Scalar, Params]: ...


class FromFunction(NamedTuple):
    """The log density that a differentiable function states.

    >>> parabola = FromFunction(lambda params: -params["x"].square().sum() / 2)
    >>> parabola.value_and_grad({"x": torch.tensor([3.0])}, torch.Generator())
    (tensor(-4.5000, dtype=torch.float64), {'x': tensor([-3.])})
    """

    function: Callable[[Params], Tensor]

    def value_and_grad(self, params: Params, generator: torch.Generator) -> tuple[Scalar, Params]:
        return value_and_grad(self.function, params)


def value_and_grad(function: Callable[[Params], Tensor], params: Params) -> tuple[Scalar, Params]:
    """A differentiable function, in float64, and its gradient.

    >>> value_and_grad(lambda params: params["x"].square().sum(), {"x": torch.tensor([3.0])})
    (tensor(9., dtype=torch.float64), {'x': tensor([6.])})
    """
    leaves = {name: value.detach().requires_grad_() for name, value in params.items()}
    value = function(leaves).double()
    gradient = torch.autograd.grad(value, list(leaves.values()))
    return value.detach(), dict(zip(leaves, gradient, strict=True))
