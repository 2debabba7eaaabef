"""Powers of symmetric positive semi-definite matrices, and what keeps them finite."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from shiftmatch.core.newton import newton_schulz
from shiftmatch.utils.parallel import parallel_map

Sym = Float[Tensor, "*group d d"]
"""Symmetric positive semi-definite matrices."""

TINY = torch.finfo(torch.float64).tiny
"""The last resort of an eigenvalue floor: a matrix of zeros still has finite powers."""


RootMethod: TypeAlias = Literal["auto", "eigh", "newton-schulz"]
"""How roots are taken; "auto" follows `root_method`."""

BATCHED_SIDE = 32
"""Larger matrices are decomposed one by one on CUDA."""

SHARED = 1 << 16
"""So many numbers in a batch of matrices are worth sharing: 6 ms of eigendecompositions, whatever their side."""

PARTS_PER_THREAD = 4
"""Threads that are done early find something left to do."""


@dataclass(frozen=True)
class Ridge:
    """How a covariance is kept away from singular.

    Its diagonal is multiplied by 1 + jitter, then its eigenvalues are raised to at least max(rtol·λ_max, atol).
    `jitter` and `rtol` follow the scale of the data, `atol` is in the squared units of the features.
    """

    jitter: float = 0.0
    rtol: float = 1e-6
    atol: float = 0.0


def root_method(device: torch.device, side: int) -> RootMethod:
    """Eigendecompositions, unless they would be done one by one on a GPU.

    >>> root_method(torch.device("cpu"), 112), root_method(torch.device("cuda"), 112)
    ('eigh', 'newton-schulz')
    """
    return "newton-schulz" if device.type == "cuda" and side > BATCHED_SIDE else "eigh"


def sym_power(matrix: Sym, power: float, ridge: Ridge = Ridge(), method: RootMethod = "auto") -> Sym:  # noqa: B008
    """M^power of the ridged matrix, in float64.

    >>> sym_power(torch.diag(torch.tensor([4.0, 9.0])), -0.5).diagonal()
    tensor([0.5000, 0.3333], dtype=torch.float64)
    """
    matrix = matrix.double()
    if ridge.jitter:
        matrix = matrix + ridge.jitter * torch.diag_embed(matrix.diagonal(dim1=-2, dim2=-1))
    if method == "auto":
        method = root_method(matrix.device, matrix.shape[-1])
    if method == "newton-schulz" and abs(power) == 0.5:
        return _root_by_products(matrix, power, ridge)
    return _power_by_eigenvalues(matrix, power, ridge)


def _power_by_eigenvalues(matrix: Sym, power: float, ridge: Ridge) -> Sym:
    values, vectors = _eigh(matrix)  # ascending, so the last is λ_max
    floor = (ridge.rtol * values[..., -1:]).clamp_min(max(ridge.atol, TINY))
    powered = torch.maximum(values, floor).pow(power)
    root: Tensor = (vectors * powered[..., None, :]) @ vectors.mT
    return root


def _root_by_products(matrix: Sym, power: float, ridge: Ridge) -> Sym:
    """Newton–Schulz where it is certain and no eigenvalue is as low as the floor; elsewhere by eigenvalues."""
    roots = newton_schulz(matrix)
    least = 1 / torch.linalg.matrix_norm(roots.inverse @ roots.inverse)  # ≤ λ_min, as |M⁻¹| ≥ 1 / λ_min
    floor = (ridge.rtol * torch.linalg.matrix_norm(matrix)).clamp_min(max(ridge.atol, TINY))
    good = (roots.certain & (least >= floor))[..., None, None]
    result = roots.root if power > 0 else roots.inverse
    return result if good.all() else torch.where(good, result, _power_by_eigenvalues(matrix, power, ridge))


def _eigh(matrix: Sym) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors. LAPACK takes matrices one by one, so on a CPU threads share a large batch."""
    matrices = matrix.reshape(-1, *matrix.shape[-2:])
    if matrix.device.type != "cpu" or matrix.numel() < SHARED or len(matrices) == 1:
        values, vectors = torch.linalg.eigh(matrix)
        return values, vectors
    parts = matrices.tensor_split(min(PARTS_PER_THREAD * torch.get_num_threads(), len(matrices)))
    values, vectors = (torch.cat(piece) for piece in zip(*parallel_map(torch.linalg.eigh, parts), strict=True))
    return values.reshape(matrix.shape[:-1]), vectors.reshape(matrix.shape)


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
