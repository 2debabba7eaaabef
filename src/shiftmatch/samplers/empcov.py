"""Priors that know the training inputs: EmpCov and Zellner-G, and ShiftEmpCov, the likelihood equivalent to EmpCov."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from shiftmatch.core.linalg import sym_power
from shiftmatch.samplers.priors import Prior, correlated, gaussian, product
from shiftmatch.shapes import Images

Rows = Float[Tensor, "n d"]
Square = Float[Tensor, "d d"]

SKIPPED_BORDER = 1
"""The released EmpCov samples leave out the outermost patch positions."""


def patches(images: Images, kernel: int, *, padding: int = 0, border: int = SKIPPED_BORDER) -> Rows:
    """Every `kernel`×`kernel` patch of the images as one row (channel, row, column), but for the outermost positions.

    >>> patches(torch.zeros(2, 1, 28, 28), 5).shape
    torch.Size([968, 25])
    """
    padded = functional.pad(images, (padding,) * 4)
    columns = functional.unfold(padded[..., border : -border or None, border : -border or None], kernel)
    return columns.transpose(1, 2).flatten(0, 1)


def covariance(rows: Rows) -> Square:
    """Σ = Σ_n (x_n − μ)(x_n − μ)ᵀ / (n − 1), in float64.

    >>> covariance(torch.tensor([[0.0], [2.0]])).item()
    2.0
    """
    centred = rows.double() - rows.double().mean(0)
    return centred.mT @ centred / (len(rows) - 1)


def second_moment(rows: Rows) -> Square:
    """XᵀX / n, not centred, in float64.

    >>> second_moment(torch.tensor([[0.0], [2.0]])).item()
    2.0
    """
    return rows.double().mT @ rows.double() / len(rows)


def empcov(parameter: str, sigma: Square, *, weight_decay: float = 100.0, empcov_decay: float = 100.0) -> Prior:
    """As in the released samples: precision `empcov_decay` Σ⁻¹ + `weight_decay` I on the first weights, Σ centred.

    All other parameters have the precision `weight_decay`.

    >>> prior = empcov("w", torch.eye(2).double(), weight_decay=1.0, empcov_decay=1.0)
    >>> prior({"w": torch.ones(1, 2), "b": torch.ones(1)}).item()
    -2.5
    """
    return product(gaussian(weight_decay), correlated(parameter, empcov_decay * _inverse(sigma)))


def empcov_equation(parameter: str, moment: Square, *, weight_decay: float = 1.0) -> Prior:
    """As in the paper: first weights w ~ N(0, (XᵀX / n) / d), all other parameters ~ N(0, I / `weight_decay`)."""
    precision = len(moment) * _inverse(moment)
    return product(gaussian(weight_decay, skip=(parameter,)), correlated(parameter, precision))


def zellner_g(parameter: str, moment: Square, *, weight_decay: float = 1.0) -> Prior:
    """The opposite of EmpCov: w ~ N(0, (XᵀX / n)⁻¹ / d), so that every direction of the input counts alike."""
    return product(gaussian(weight_decay, skip=(parameter,)), correlated(parameter, len(moment) * moment))


def _inverse(sigma: Square) -> Square:
    inverse = torch.linalg.inv(sigma.double())
    symmetric: Tensor = (inverse + inverse.mT) / 2
    return symmetric


@final
class ShiftEmpCov(nn.Module):
    """A first layer that sees its inputs as x (XᵀX / n)^½, X being the training inputs.

    With a prior N(0, I / d) on its weights, its outputs have the distribution that `empcov_equation` gives to those of
    the plain layer. For a convolution, the inputs are the patches. x S w = x (S w), so the root S meets the weights.

    >>> layer = ShiftEmpCov(nn.Linear(2, 1, bias=False), 4 * torch.eye(2).double())
    >>> _ = layer.load_state_dict({"layer.weight": torch.ones(1, 2), "root": layer.root})
    >>> layer(torch.ones(1, 2)).item()
    4.0
    """

    def __init__(self, layer: nn.Linear | nn.Conv2d, moment: Square) -> None:
        super().__init__()
        self.layer = layer
        self.root: Tensor
        self.register_buffer("root", sym_power(moment, 0.5).to(layer.weight.dtype))

    def forward(self, x: Tensor) -> Tensor:
        weight = (self.layer.weight.flatten(1) @ self.root).view_as(self.layer.weight)
        others = {name: value for name, value in self.layer.named_parameters() if name != "weight"}
        out: Tensor = functional_call(self.layer, {"weight": weight, **others}, (x,))
        return out
