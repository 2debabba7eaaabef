"""Parameters as a mapping from names to tensors, and the little arithmetic that samplers need on them."""

from collections.abc import Callable, Collection, Mapping
from fnmatch import fnmatchcase

import torch
from jaxtyping import Float
from torch import Tensor, nn

from shiftmatch.errors import InputError

Params = dict[str, Tensor]
Scalar = Float[Tensor, ""]


def params_of(model: nn.Module, patterns: str | Collection[str] = "*") -> Params:
    """A copy of the parameters of a model, by name; all of them, or those that a pattern such as "fc.*" fits.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    >>> {name: tuple(value.shape) for name, value in params_of(net, "1.*").items()}
    {'1.weight': (1, 3), '1.bias': (1,)}
    """
    wanted = [patterns] if isinstance(patterns, str) else list(patterns)
    names = [name for name, _ in model.named_parameters()]
    for pattern in wanted:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise InputError(f"No parameter is named like {pattern!r}; the network has {', '.join(names)}.")
    chosen = [name for name in names if any(fnmatchcase(name, pattern) for pattern in wanted)]
    return {name: model.get_parameter(name).detach().clone() for name in chosen}


def add_scaled(x: Mapping[str, Tensor], scale: float | Tensor, direction: Mapping[str, Tensor]) -> Params:
    """X + scale · direction.

    >>> add_scaled({"w": torch.ones(2)}, 3.0, {"w": torch.ones(2)})
    {'w': tensor([4., 4.])}
    """
    return {name: value + scale * direction[name] for name, value in x.items()}


def standard_normal(like: Mapping[str, Tensor], generator: torch.Generator) -> Params:
    """ξ ~ N(0, I) with the names, shapes, types and devices of `like`; the generator may be on another device.

    >>> standard_normal({"w": torch.ones(2, 3)}, torch.Generator())["w"].shape
    torch.Size([2, 3])
    """
    return {
        name: torch.randn(x.shape, generator=generator, dtype=x.dtype, device=generator.device).to(x.device)
        for name, x in like.items()
    }


def inner(x: Mapping[str, Tensor], y: Mapping[str, Tensor]) -> Scalar:
    """⟨x, y⟩, summed in float64 because energies are large and their differences small.

    >>> inner({"w": torch.ones(2)}, {"w": torch.full((2,), 3.0)}).item()
    6.0
    """
    return torch.stack([(value.double() * y[name].double()).sum() for name, value in x.items()]).sum()


def value_and_grad(function: Callable[[Params], Tensor], params: Params) -> tuple[Scalar, Params]:
    """A differentiable function, in float64, and its gradient.

    >>> value_and_grad(lambda params: params["x"].square().sum(), {"x": torch.tensor([3.0])})
    (tensor(9., dtype=torch.float64), {'x': tensor([6.])})
    """
    leaves = {name: value.detach().requires_grad_() for name, value in params.items()}
    value = function(leaves).double()
    gradient = torch.autograd.grad(value, list(leaves.values()))
    return value.detach(), dict(zip(leaves, gradient, strict=True))
