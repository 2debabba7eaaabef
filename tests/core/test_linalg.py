import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from randomness import randn, random_spd
from torch import Tensor
from torch.testing import assert_close

from shiftmatch.core.linalg import Ridge, pack, sym_power, unpack


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
    root = sym_power(thin @ thin.T, -0.5, Ridge(rtol=1e-6))
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
    assert_close(sym_power(matrix, -0.5, Ridge(jitter=1e-3, rtol=0.0, atol=0.5)), expected)


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


@pytest.mark.parametrize("power", [0.5, -0.5])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("spread", [1.0, 1e3, 1e12])
@pytest.mark.parametrize(
    "ridge",
    [Ridge(rtol=0.0), Ridge(jitter=1e-4), Ridge(rtol=0.1), Ridge(atol=0.3)],
    ids=["none", "jitter", "rtol", "atol"],
)
def test_both_methods_give_the_same_roots(power: float, scale: float, spread: float, ridge: Ridge) -> None:
    """Where eigenvalues reach the floor, or are too far apart to be certain, products give way to eigenvalues."""
    matrix = scale * ill_conditioned(12, spread)
    exact, products = (sym_power(matrix, power, ridge, method) for method in ("eigh", "newton-schulz"))
    assert_close(products, exact, rtol=1e-7, atol=1e-7 * exact.abs().max().item())


def test_every_matrix_of_a_batch_gets_the_method_that_suits_it() -> None:
    thin = randn(6, 2)
    matrix = torch.stack([random_spd(6), thin @ thin.T, torch.zeros(6, 6, dtype=torch.float64)])
    exact, products = (sym_power(matrix, -0.5, Ridge(jitter=1e-4), method) for method in ("eigh", "newton-schulz"))
    assert_close(products, exact, rtol=1e-8, atol=0)


@pytest.mark.parametrize("shape", [(7, 5, 20), (3, 20), (1, 20), (20,)])
def test_threads_share_a_large_batch(
    shape: tuple[int, ...], two_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix = random_spd(*shape)
    alone = sym_power(matrix, -0.5)
    monkeypatch.setattr("shiftmatch.core.linalg.SHARED", 0)
    assert_close(sym_power(matrix, -0.5), alone, rtol=1e-12, atol=1e-12)
