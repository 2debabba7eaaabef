import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from randomness import randn, random_spd
from torch import Tensor
from torch.testing import assert_close

from shiftmatch.core.linalg import EigenvalueFloor, pack, sym_power, unpack


@given(st.integers(1, 12), st.sampled_from([1e-30, 1e-6, 1.0, 1e6, 1e30]))
def test_square_root_squares_to_the_matrix_at_any_scale(side: int, scale: float) -> None:
    matrix = random_spd(2, side) * scale
    root = sym_power(matrix, 0.5)
    assert_close(root @ root, matrix, rtol=1e-9, atol=1e-9 * scale)


@given(st.integers(1, 12), st.sampled_from([1e-30, 1e-6, 1.0, 1e6, 1e30]))
def test_inverse_root_undoes_the_root(side: int, scale: float) -> None:
    matrix = random_spd(2, side) * scale
    product = sym_power(matrix, 0.5) @ sym_power(matrix, -0.5)
    assert_close(product, torch.eye(side, dtype=torch.float64).expand(2, -1, -1), rtol=0, atol=1e-9)


def test_rank_deficient_matrices_have_finite_inverse_roots() -> None:
    thin = randn(6, 2)
    root = sym_power(thin @ thin.T, -0.5, EigenvalueFloor(rtol=1e-6))
    values = torch.linalg.eigvalsh(root)
    assert values.max() / values.min() <= 1e3 * (1 + 1e-6)  # (1e-6)^{-1/2}


def test_zero_matrix_has_finite_powers() -> None:
    zero = torch.zeros(3, 3)
    assert sym_power(zero, -0.5).isfinite().all()
    assert_close(sym_power(zero, 0.5), zero.double())


def test_ridge_does_what_the_authors_code_does() -> None:
    matrix = random_spd(5)
    ridged = matrix.clone()
    ridged.diagonal().mul_(1.001)
    values, vectors = torch.linalg.eigh(ridged)
    expected = vectors @ torch.diag(values.clamp_min(0.5) ** -0.5) @ vectors.T
    assert_close(sym_power(matrix, -0.5, EigenvalueFloor(jitter=1e-3, rtol=0.0, atol=0.5)), expected)


@pytest.mark.parametrize("side", [1, 2, 7])
def test_packing_loses_nothing(side: int) -> None:
    matrix = random_spd(3, side)
    packed = pack(matrix)
    assert packed.shape == (3, side * (side + 1) // 2)
    assert torch.equal(unpack(packed, side), matrix)


def ill_conditioned(side: int, spread: float) -> Tensor:
    """Eigenvalues from 1 down to 1 / spread."""
    turn, _ = torch.linalg.qr(randn(3, side, side))
    matrix: Tensor = (turn * torch.logspace(0, -math.log10(spread), side, dtype=torch.float64)) @ turn.mT
    return (matrix + matrix.mT) / 2
