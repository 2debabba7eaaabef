"""Prior densities over parameters, each a function from parameters to log p(θ) up to a constant; they add up."""

from collections.abc import Callable, Collection

import torch
from torch import Tensor

from shiftmatch.errors import InputError
from shiftmatch.samplers.params import Params, Scalar

Prior = Callable[[Params], Scalar]


def gaussian(precision: float, *, skip: Collection[str] = ()) -> Prior:
    """Log N(θ; 0, I / precision); the precision is what optimisers call weight decay.

    >>> gaussian(4.0)({"w": torch.tensor([0.5, 0.5])}).item()
    -1.0
    """
    return _elementwise(lambda x: -0.5 * precision * x.square(), skip)


def laplace(scale: float, *, skip: Collection[str] = ()) -> Prior:
    """−Σ |θ| / scale.

    >>> laplace(0.5)({"w": torch.tensor([-1.0, 2.0])}).item()
    -6.0
    """
    return _elementwise(lambda x: -x.abs() / scale, skip)


def student_t(degrees: float, scale: float, *, skip: Collection[str] = ()) -> Prior:
    """−(ν + 1)/2 Σ log(1 + θ² / (ν scale²)) with ν degrees of freedom.

    >>> student_t(1.0, 1.0)({"w": torch.ones(1)}).item() == -torch.tensor(2.0).double().log().item()
    True
    """
    return _elementwise(lambda x: -0.5 * (degrees + 1) * torch.log1p(x.square() / (degrees * scale**2)), skip)


def correlated(parameter: str, precision: Tensor) -> Prior:
    """−½ Σ_c w_cᵀ P w_c over the output channels c of one weight; its other axes are flattened to those of P.

    >>> correlated("w", 2 * torch.eye(2))({"w": torch.ones(3, 2)}).item()
    -6.0
    """
    factor = precision.double()

    def log_prior(params: Params) -> Scalar:
        if parameter not in params:
            raise InputError(f"The prior is for {parameter!r}; the network has {', '.join(params)}.")
        weight = params[parameter].flatten(1).double()
        return -0.5 * ((weight @ factor) * weight).sum()

    return log_prior


def product(*priors: Prior) -> Prior:
    """The product of densities is the sum of their logarithms.

    >>> product(gaussian(1.0), gaussian(2.0))({"w": torch.ones(2)}).item()
    -3.0
    """
    return lambda params: torch.stack([prior(params) for prior in priors]).sum()


def _elementwise(log_density: Callable[[Tensor], Tensor], skip: Collection[str]) -> Prior:
    def log_prior(params: Params) -> Scalar:
        # In float64, because the sum over all parameters is large and its changes are small.
        terms = (log_density(value.double()).sum() for name, value in params.items() if name not in skip)
        return sum(terms, start=torch.zeros((), dtype=torch.float64))

    return log_prior
