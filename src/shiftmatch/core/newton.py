"""Square roots by products of matrices alone, which a GPU does well: the coupled Newton–Schulz iteration."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

MOST_STEPS = 50
"""The least eigenvalue, relative to the largest, grows 2.25 times in a step: enough for one of 1e-14."""

CERTAIN = 1e-9
"""The largest entry of Z M Z − I below which Z is accepted as M^{-1/2}."""


class Roots(NamedTuple):
    """M^{1/2}, M^{-1/2}, and which of them are certain."""

    root: Float[Tensor, "*group d d"]
    inverse: Float[Tensor, "*group d d"]
    certain: Bool[Tensor, "*group"]


def newton_schulz(matrix: Float[Tensor, "*group d d"]) -> Roots:
    """Both square roots of symmetric positive definite matrices, without leaving their device.

    From Y = M / |M| and Z = I, with T = (3 I − Z Y) / 2: Y ← Y T and Z ← T Z, which go to (M / |M|)^{±1/2}. Whether
    they have arrived is measured on the outcome, Z M Z = I, so a singular or infinite matrix is never certain.

    >>> roots = newton_schulz(torch.diag(torch.tensor([4.0, 9.0], dtype=torch.float64)))
    >>> roots.inverse.diagonal(), bool(roots.certain)
    (tensor([0.5000, 0.3333], dtype=torch.float64), True)
    """
    size = torch.linalg.matrix_norm(matrix)[..., None, None]
    unit = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device).expand_as(matrix)
    normal = matrix / size
    y, z = normal, unit
    for _ in range(MOST_STEPS):
        product = z @ y
        if _largest(product - unit).max() < CERTAIN:  # false for NaN, which then takes all steps
            break
        step = 1.5 * unit - 0.5 * product
        y, z = y @ step, step @ z
    y, z = (y + y.mT) / 2, (z + z.mT) / 2
    certain = _largest(z @ normal @ z - unit) < CERTAIN
    return Roots(y * size.sqrt(), z / size.sqrt(), certain)


def _largest(matrix: Float[Tensor, "*group d d"]) -> Float[Tensor, "*group"]:
    return matrix.abs().amax((-2, -1))
