"""Prior densities over parameters: functions from parameters to log p(θ) up to a constant, which add up.

Some of them know the training inputs: EmpCov and Zellner-G; ShiftEmpCov is the likelihood equivalent to EmpCov.
"""

from collections.abc import Callable, Collection
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from shiftmatch.errors import InputError
from shiftmatch.samplers.posterior import Params, Scalar
from shiftmatch.shapes import Images

Prior = Callable[[Params], Scalar]
Rows = Float[Tensor, "n d"]
Square = Float[Tensor, "d d"]

PATCH_CHUNK = 100
"""Images whose patches are in memory at once."""


def gaussian(precision: float, *, skip: Collection[str] = ()) -> Prior:
    """Log N(θ; 0, I / precision); the precision is what optimisers call weight decay.

    Args:
        precision: one over the variance.
        skip: names of parameters that another prior is for.

    >>> gaussian(4.0)({"w": torch.tensor([0.5, 0.5])}).item()
    -1.0
    """
    return _elementwise(lambda x: -0.5 * precision * x.square(), skip)


def laplace(scale: float, *, skip: Collection[str] = ()) -> Prior:
    """−Σ |θ| / scale.

    Args:
        scale: the mean of |θ|.
        skip: names of parameters that another prior is for.

    >>> laplace(0.5)({"w": torch.tensor([-1.0, 2.0])}).item()
    -6.0
    """
    return _elementwise(lambda x: -x.abs() / scale, skip)


def student_t(degrees: float, scale: float, *, skip: Collection[str] = ()) -> Prior:
    """−(ν + 1)/2 Σ log(1 + θ² / (ν scale²)) with ν degrees of freedom.

    Args:
        degrees: of freedom ν; few make heavy tails.
        scale: the width.
        skip: names of parameters that another prior is for.

    >>> student_t(1.0, 1.0)({"w": torch.ones(1)}).item() == -torch.tensor(2.0).double().log().item()
    True
    """
    return _elementwise(lambda x: -0.5 * (degrees + 1) * torch.log1p(x.square() / (degrees * scale**2)), skip)


def correlated(parameter: str, precision: Tensor) -> Prior:
    """−½ Σ_c w_cᵀ P w_c over the output channels c of one weight; its other axes are flattened to those of P.

    Args:
        parameter: the name of the weight.
        precision: the matrix P.

    >>> correlated("w", 2 * torch.eye(2))({"w": torch.ones(3, 2)}).item()
    -6.0
    """
    factor = precision.double()

    def log_prior(params: Params) -> Scalar:
        if parameter not in params:
            raise InputError(f"The prior is for {parameter!r}; the network has {', '.join(params)}.")
        weight = params[parameter].flatten(1).double()
        return -0.5 * ((weight @ factor.to(weight.device)) * weight).sum()

    return log_prior


def product(*priors: Prior) -> Prior:
    """The product of densities is the sum of their logarithms.

    Args:
        *priors: what the others in this file return.

    >>> product(gaussian(1.0), gaussian(2.0))({"w": torch.ones(2)}).item()
    -3.0
    """
    return lambda params: torch.stack([prior(params) for prior in priors]).sum()


def _elementwise(log_density: Callable[[Tensor], Tensor], skip: Collection[str]) -> Prior:
    def log_prior(params: Params) -> Scalar:
        # In float64, because the sum over all parameters is large and its changes are small.
        terms = [log_density(value.double()).sum() for name, value in params.items() if name not in skip]
        return torch.stack(terms).sum() if terms else torch.zeros((), dtype=torch.float64)

    return log_prior


def patches(images: Images, kernel: int, *, padding: int = 2, border: int = 1) -> Rows:
    """Every `kernel`×`kernel` patch of the images as one row (channel, row, column), but for the outermost positions.

    The defaults are those behind the published EmpCov matrices: zeros around the (normalised) images, and the
    outermost positions left out.

    >>> patches(torch.zeros(2, 1, 28, 28), 5).shape
    torch.Size([1352, 25])
    """
    padded = functional.pad(images, (padding,) * 4)
    columns = functional.unfold(padded[..., border : -border or None, border : -border or None], kernel)
    return columns.transpose(1, 2).flatten(0, 1)


def patch_covariance(images: Images, kernel: int, *, padding: int = 2, border: int = 1) -> Square:
    """The covariance of `patches`, without all of them in memory at once; of all of MNIST, its trace is 27.93.

    Args:
        images: as the network takes them.
        kernel: the side of a patch.
        padding: zeros around each image.
        border: positions that are left out on each side.

    >>> images = torch.randn(3, 1, 9, 9)
    >>> torch.allclose(patch_covariance(images, 5), covariance(patches(images, 5)))
    True
    """
    centre = patches(images[:PATCH_CHUNK], kernel, padding=padding, border=border).double().mean(0)  # loses no digits
    count, total, squares = 0, torch.zeros_like(centre), torch.zeros(len(centre), len(centre), dtype=torch.float64)
    for part in images.split(PATCH_CHUNK):
        centred = patches(part, kernel, padding=padding, border=border).double() - centre
        count, total, squares = count + len(centred), total + centred.sum(0), squares + centred.mT @ centred
    return (squares - torch.outer(total, total) / count) / (count - 1)


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


def empcov(
    parameter: str,
    sigma: Square,
    *,
    weight_decay: float = 100.0,
    empcov_decay: float = 100.0,
    jitter: float = 0.0,
    pseudo_inverse: bool = False,
) -> Prior:
    """As in the released samples: precision `empcov_decay` Σ⁻¹ + `weight_decay` I on the first weights, Σ centred.

    Pixels that never change make Σ singular: see `jitter` and `pseudo_inverse`.

    Args:
        parameter: the name of the first weights.
        sigma: the covariance Σ of their inputs.
        weight_decay: the precision of all other parameters, and what is added to that of these.
        empcov_decay: the factor of Σ⁻¹.
        jitter: added to the diagonal of Σ; the published code has 1e-10, which holds the weights of those pixels at 0.
        pseudo_inverse: leave the weights of those pixels to `weight_decay` instead.

    >>> prior = empcov("w", torch.eye(2).double(), weight_decay=1.0, empcov_decay=1.0)
    >>> prior({"w": torch.ones(1, 2), "b": torch.ones(1)}).item()
    -2.5
    """
    precision = empcov_decay * _inverse(sigma, jitter=jitter, free=0.0 if pseudo_inverse else None)
    return product(gaussian(weight_decay), correlated(parameter, precision))


def empcov_equation(
    parameter: str,
    moment: Square,
    *,
    weight_decay: float = 1.0,
    jitter: float = 0.0,
    pseudo_inverse: bool = False,
) -> Prior:
    """As in the paper: first weights w ~ N(0, (XᵀX / n) / d), all other parameters ~ N(0, I / `weight_decay`).

    Args:
        parameter: the name of the first weights.
        moment: XᵀX / n, the second moment of their inputs.
        weight_decay: the precision of all other parameters.
        jitter: added to the diagonal of the moment.
        pseudo_inverse: leave directions without variance to `weight_decay`.

    >>> prior = empcov_equation("w", torch.eye(2).double())
    >>> prior({"w": torch.ones(1, 2)}).item()
    -2.0
    """
    free = weight_decay / len(moment) if pseudo_inverse else None
    precision = len(moment) * _inverse(moment, jitter=jitter, free=free)
    return product(gaussian(weight_decay, skip=(parameter,)), correlated(parameter, precision))


def zellner_g(parameter: str, moment: Square, *, weight_decay: float = 1.0) -> Prior:
    """The opposite of EmpCov: w ~ N(0, (XᵀX / n)⁻¹ / d), so that every direction of the input counts alike.

    Args:
        parameter: the name of the first weights.
        moment: XᵀX / n, the second moment of their inputs.
        weight_decay: the precision of all other parameters.

    >>> prior = zellner_g("w", 4 * torch.eye(2).double())
    >>> prior({"w": torch.ones(1, 2)}).item()
    -8.0
    """
    return product(gaussian(weight_decay, skip=(parameter,)), correlated(parameter, len(moment) * moment))


def _eigh(matrix: Square) -> tuple[Float[Tensor, "d"], Square]:
    """Eigenvalues, exactly 0 where they are 0 but for rounding, and eigenvectors."""
    values, vectors = torch.linalg.eigh(matrix.double())
    return values.where(values > len(values) * torch.finfo(values.dtype).eps * values[-1], 0.0), vectors


def _inverse(sigma: Square, *, jitter: float, free: float | None) -> Square:
    """Σ⁻¹, with the eigenvalue `free` in directions that do not vary; without it, such a Σ is refused."""
    values, vectors = _eigh(sigma.double() + jitter * torch.eye(len(sigma), device=sigma.device))
    zero = values == 0
    if zero.any() and free is None:
        raise InputError(
            f"The covariance has no inverse: {int(zero.sum())} of {len(values)} directions do not vary, such as pixels "
            "that are the same in every image. Pass jitter=1e-10, as the published code does, or pseudo_inverse=True."
        )
    return (vectors * torch.where(zero, free or 0.0, 1 / values)) @ vectors.mT


@final
class ShiftEmpCov(nn.Module):
    """A first layer that sees its inputs as x (XᵀX / n)^½, X being the training inputs.

    With a prior N(0, I / d) on its weights, its outputs have the distribution that `empcov_equation` gives to those of
    the plain layer. For a convolution, the inputs are the patches. x S w = x (S w), so the root S meets the weights.
    Directions in which the training inputs were always 0 do not reach the outputs.

    Args:
        layer: the first layer of a network.
        moment: XᵀX / n, the second moment of its inputs.

    >>> layer = ShiftEmpCov(nn.Linear(2, 1, bias=False), 4 * torch.eye(2).double())
    >>> _ = layer.load_state_dict({"layer.weight": torch.ones(1, 2), "root": layer.root})
    >>> layer(torch.ones(1, 2)).item()
    4.0
    """

    def __init__(self, layer: nn.Linear | nn.Conv2d, moment: Square) -> None:
        super().__init__()
        self.layer = layer
        self.root: Tensor
        values, vectors = _eigh(moment)
        self.register_buffer("root", ((vectors * values.sqrt()) @ vectors.mT).to(layer.weight.dtype))

    def forward(self, x: Tensor) -> Tensor:
        weight = (self.layer.weight.flatten(1) @ self.root).view_as(self.layer.weight)
        others = {name: value for name, value in self.layer.named_parameters() if name != "weight"}
        out: Tensor = functional_call(self.layer, {"weight": weight, **others}, (x,))
        return out
