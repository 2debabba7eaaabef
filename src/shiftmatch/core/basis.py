"""Bases in which features of natural images are nearly uncorrelated: the cosine and the Fourier transform."""

from collections.abc import Sequence
from functools import reduce
from math import pi, prod
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from shiftmatch.shapes import Features

Coefficients = Tensor
"""Features in a basis: (b c *frequencies), complex for the Fourier transform."""

SMALL_MAP = 64
"""Maps of so many positions are transformed by one product; for larger ones a product per axis is faster."""


def dct_matrix(side: int) -> Float[Tensor, "i j"]:
    """The orthonormal DCT-II: D[i, j] = √(2/n) cos(π (j + ½) i / n), the first row divided by √2.

    >>> torch.allclose(dct_matrix(4) @ dct_matrix(4).mT, torch.eye(4, dtype=torch.float64))
    True
    """
    i, j = torch.arange(side, dtype=torch.float64)[:, None], torch.arange(side, dtype=torch.float64)
    matrix: Tensor = (2 / side) ** 0.5 * torch.cos(pi * (j + 0.5) * i / side)
    return torch.cat([matrix[:1] / 2**0.5, matrix[1:]])


@final
class DCT:
    """The orthonormal cosine transform along every spatial axis: real, and without wrap-around."""

    def matrices(self, space: Sequence[int]) -> list[Tensor]:
        """What the transform needs for maps of that size: a matrix per axis, or their Kronecker product if small."""
        axes = [dct_matrix(side) for side in space]
        return [reduce(torch.kron, axes)] if axes and prod(space) <= SMALL_MAP else axes

    def forward(self, x: Features, matrices: Sequence[Tensor]) -> Coefficients:
        """Features to coefficients."""
        return _along_axes(x, matrices)

    def inverse(self, z: Coefficients, matrices: Sequence[Tensor], space: Sequence[int]) -> Features:
        """Coefficients to features."""
        return _along_axes(z, [matrix.mT for matrix in matrices])

    def multiplicity(self, space: Sequence[int]) -> Float[Tensor, "*frequencies"]:
        """How many real coordinates of the whole transform each coefficient represents."""
        return torch.ones(tuple(space), dtype=torch.float64)


@final
class DFT:
    """The Fourier transform, with the same methods: exact where images wrap around."""

    def matrices(self, space: Sequence[int]) -> list[Tensor]:
        return []

    def forward(self, x: Features, matrices: Sequence[Tensor]) -> Coefficients:
        coefficients: Tensor = torch.fft.rfftn(x, dim=list(range(2, x.ndim)), norm="ortho")
        return coefficients

    def inverse(self, z: Coefficients, matrices: Sequence[Tensor], space: Sequence[int]) -> Features:
        x: Tensor = torch.fft.irfftn(z, s=list(space), dim=list(range(2, z.ndim)), norm="ortho")
        return x

    def multiplicity(self, space: Sequence[int]) -> Float[Tensor, "*frequencies"]:
        """Two for a frequency that represents its negative as well."""
        if not space:
            return torch.ones((), dtype=torch.float64)
        *others, last = space
        half = torch.full((last // 2 + 1,), 2.0, dtype=torch.float64)
        half[0] = 1
        if last % 2 == 0:
            half[-1] = 1
        return half.expand(*others, -1).clone()


BASES: dict[str, DCT | DFT] = {"dct": DCT(), "dft": DFT()}


def _along_axes(x: Tensor, matrices: Sequence[Tensor]) -> Tensor:
    """Multiply every axis of space by its matrix, or all of them by one."""
    if len(matrices) == 1:
        return (x.flatten(2) @ matrices[0].mT).reshape(x.shape)
    for axis, matrix in enumerate(matrices, start=2):
        if axis == x.ndim - 1:
            x = x @ matrix.mT
        elif axis == x.ndim - 2:
            x = matrix @ x
        else:
            x = (x.movedim(axis, -1) @ matrix.mT).movedim(-1, axis)
    return x


def multiply_into(out: Tensor, x: Tensor, matrices: Sequence[Tensor], scratch: Tensor) -> None:
    """`DCT.forward` into memory that is already allocated: allocating it costs more than the products.

    All tensors are contiguous. Products go to `scratch` and to `out` in turn, and the last one to `out`; so `x` may be
    `out` itself for an even number of matrices, and `scratch` for an odd one.
    """
    for left in reversed(range(len(matrices))):
        side, after = len(matrices[left]), prod(map(len, matrices[left + 1 :]))
        to = scratch if left % 2 else out
        if after == 1:
            torch.mm(x.view(-1, side), matrices[left].mT, out=to.view(-1, side))
        else:
            samples = x.view(-1, side, after)
            torch.bmm(matrices[left].expand(len(samples), side, side), samples, out=to.view_as(samples))
        x = to
