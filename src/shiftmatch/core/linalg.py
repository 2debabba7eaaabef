"""Powers of symmetric positive semi-definite matrices, and what keeps them finite."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

Sym = Float[Tensor, "*group d d"]
"""Symmetric positive semi-definite matrices."""

TINY = torch.finfo(torch.float64).tiny
"""The last resort of an eigenvalue floor: a matrix of zeros still has finite powers."""

JITTER = 1e-4
"""Bounds what directions without variance are amplified by; hundred times the rounding of single precision."""


@dataclass(frozen=True)
class EigenvalueFloor:
    """How a covariance is kept away from singular.

    Its diagonal is multiplied by 1 + jitter, then its eigenvalues are raised to at least max(rtol·λ_max, atol).

    Args:
        jitter: the part by which the diagonal grows; it follows the scale of the data.
        rtol: the least eigenvalue, as a part of the largest.
        atol: the least eigenvalue, in the squared units of the features.

    >>> sym_power(torch.diag(torch.tensor([4.0, 0.0])), -0.5, EigenvalueFloor(rtol=0.25))
    tensor([[0.5000, 0.0000],
            [0.0000, 1.0000]], dtype=torch.float64)
    """

    jitter: float = 0.0
    rtol: float = 1e-6
    atol: float = 0.0


@dataclass(frozen=True)
class Regularisation:
    """The floors of the two covariances. Equal ones keep matching the identity on training data.

    Args:
        test: the floor of the covariance of a test batch.
        train: the floor of the covariance of the training data.

    >>> Regularisation().test == Regularisation().train
    True
    """

    test: EigenvalueFloor = field(default=EigenvalueFloor(jitter=JITTER))
    train: EigenvalueFloor = field(default=EigenvalueFloor(jitter=JITTER))


def sym_power(matrix: Sym, power: float, floor: EigenvalueFloor = EigenvalueFloor()) -> Sym:  # noqa: B008
    """M^power of the regularised matrix, in float64.

    >>> sym_power(torch.diag(torch.tensor([4.0, 9.0])), -0.5).diagonal()
    tensor([0.5000, 0.3333], dtype=torch.float64)
    """
    matrix = matrix.double()
    if floor.jitter:
        matrix = matrix + floor.jitter * torch.diag_embed(matrix.diagonal(dim1=-2, dim2=-1))
    values, vectors = torch.linalg.eigh(matrix)  # ascending, so the last is λ_max
    least = (floor.rtol * values[..., -1:]).clamp_min(max(floor.atol, TINY))
    powered = torch.maximum(values, least).pow(power)
    root: Tensor = (vectors * powered[..., None, :]) @ vectors.mT
    return root


def pack(matrix: Sym) -> Float[Tensor, "*group packed"]:
    """The upper triangle of a symmetric matrix, row by row: half the space, nothing lost.

    >>> pack(torch.tensor([[1.0, 2.0], [2.0, 3.0]]))
    tensor([1., 2., 3.])
    """
    rows, cols = torch.triu_indices(matrix.shape[-1], matrix.shape[-1])
    return matrix[..., rows, cols]


def unpack(packed: Float[Tensor, "*group packed"], side: int) -> Sym:
    """The symmetric matrix whose upper triangle `pack` wrote down.

    >>> unpack(torch.tensor([1.0, 2.0, 3.0]), 2)
    tensor([[1., 2.],
            [2., 3.]])
    """
    rows, cols = torch.triu_indices(side, side)
    matrix = packed.new_empty(*packed.shape[:-1], side, side)
    matrix[..., rows, cols] = packed
    matrix[..., cols, rows] = packed
    return matrix
