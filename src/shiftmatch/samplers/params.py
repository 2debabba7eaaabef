"""Parameters as a mapping from names to tensors, and the little arithmetic that samplers need on them."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

Params = dict[str, Tensor]
Scalar = Float[Tensor, ""]


def params_of(model: nn.Module) -> Params:
    """A copy of the parameters of a model, by name.

    >>> {name: tuple(value.shape) for name, value in params_of(nn.Linear(2, 3)).items()}
    {'weight': (3, 2), 'bias': (3,)}
    """
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def add_scaled(x: Mapping[str, Tensor], scale: float | Tensor, direction: Mapping[str, Tensor]) -> Params:
    """X + scale · direction.

    >>> add_scaled({"w": torch.ones(2)}, 3.0, {"w": torch.ones(2)})
    {'w': tensor([4., 4.])}
    """
    return {name: value + scale * direction[name] for name, value in x.items()}


def standard_normal(like: Mapping[str, Tensor], generator: torch.Generator) -> Params:
    """ξ ~ N(0, I) with the names, shapes and types of `like`.

    >>> standard_normal({"w": torch.ones(2, 3)}, torch.Generator())["w"].shape
    torch.Size([2, 3])
    """
    return {name: torch.randn(value.shape, generator=generator, dtype=value.dtype) for name, value in like.items()}


def inner(x: Mapping[str, Tensor], y: Mapping[str, Tensor]) -> Scalar:
    """⟨x, y⟩, summed in float64 because energies are large and their differences small.

    >>> inner({"w": torch.ones(2)}, {"w": torch.full((2,), 3.0)}).item()
    6.0
    """
    return torch.stack([(value.double() * y[name].double()).sum() for name, value in x.items()]).sum()
