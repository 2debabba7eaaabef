"""Powers of symmetric positive semi-definite matrices, and what keeps them finite."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

Sym = Float[Tensor, "*group d d"]
"""Symmetric positive semi-definite matrices."""

TINY = torch.finfo(torch.float64).tiny
"""The last resort of an eigenvalue floor: a matrix of zeros still has finite powers."""


@dataclass(frozen=True)
class Ridge:
    """How a covariance is kept away from singular.

    Its diagonal is multiplied by 1 + jitter, then its eigenvalues are raised to at least max(rtol·λ_max, atol).
    `jitter` and `rtol` follow the scale of the data, `atol` is in the squared units of the features.
    """

    jitter: float = 0.0
    rtol: float = 1e-6
    atol: float = 0.0


def sym_power(matrix: Sym, power: float, ridge: Ridge = Ridge()) -> Sym:  # noqa: B008 (frozen)
    """M^power of the ridged matrix, in float64.

    >>> sym_power(torch.diag(torch.tensor([4.0, 9.0])), -0.5).diagonal()
    tensor([0.5000, 0.3333], dtype=torch.float64)
    """
    matrix = matrix.double()
    if ridge.jitter:
        matrix = matrix + ridge.jitter * torch.diag_embed(matrix.diagonal(dim1=-2, dim2=-1))
    values, vectors = torch.linalg.eigh(matrix)  # ascending, so the last is λ_max
    floor = (ridge.rtol * values[..., -1:]).clamp_min(max(ridge.atol, TINY))
    powered = torch.maximum(values, floor).pow(power)
    root: Tensor = (vectors * powered[..., None, :]) @ vectors.mT
    return root


def pack(matrix: Sym) -> Float[Tensor, "*group packed"]:
    """The upper triangle of a symmetric matrix, row by row: half the space, nothing lost.

    >>> pack(torch.tensor([[1.0, 2.0], [2.0, 3.0]]))
    tensor([1., 2., 3.])
    """
    rows, cols = _upper(matrix.shape[-1])
    return matrix[..., rows, cols]


def unpack(packed: Float[Tensor, "*group packed"], side: int) -> Sym:
    """The symmetric matrix whose upper triangle `pack` wrote down.

    >>> unpack(torch.tensor([1.0, 2.0, 3.0]), 2)
    tensor([[1., 2.],
            [2., 3.]])
    """
    rows, cols = _upper(side)
    matrix = packed.new_empty(*packed.shape[:-1], side, side)
    matrix[..., rows, cols] = packed
    matrix[..., cols, rows] = packed
    return matrix


def _upper(side: int) -> tuple[Tensor, Tensor]:
    rows, cols = torch.triu_indices(side, side)
    return rows, cols
