"""Laws that every structure obeys, and the matrix ones against slow versions."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from randomness import maps, randn
from references import slow
from torch import Tensor
from torch.testing import assert_close

from shiftmatch.core import views
from shiftmatch.core.covariance import STRUCTURES, Covariance, Dense, Kronecker, SpatialFull, SpatialKronecker
from shiftmatch.core.linalg import EigenvalueFloor, Regularisation
from shiftmatch.core.spectrum import ChannelMoments, Prior, Spectrum
from shiftmatch.errors import InputError, NonFiniteError

EXACT = Regularisation(test=EigenvalueFloor(), train=EigenvalueFloor())  # no jitter
ALL = [Spectrum("dft"), *(kind() for kind in STRUCTURES.values())]
EVERY_STRUCTURE = pytest.mark.parametrize("structure", ALL, ids=str)


def matched(structure: Covariance, test: Tensor, train: Tensor, prior: float = 0.0) -> Tensor:
    target = structure.target(structure.measure(train), train.shape[2:])
    if isinstance(structure, Spectrum | ChannelMoments):
        precision = {torch.float32: torch.complex64, torch.float64: torch.complex128}
        target = {k: x.to(precision[test.dtype] if x.is_complex() else test.dtype) for k, x in target.items()}
    return structure.transport(test, target, Prior(prior, prior), len(test))


@EVERY_STRUCTURE
@given(
    shape=st.sampled_from([(3,), (2, 4), (2, 4, 6), (3, 5, 5), (1, 6, 1), (2, 3, 2, 4)]),
    scale=st.sampled_from([1e-12, 1.0, 1e12]),
    shift=st.sampled_from([0.0, 10.0]),
)
@settings(max_examples=20)
def test_identity_on_training_data(structure: Covariance, shape: tuple[int, ...], scale: float, shift: float) -> None:
    train = maps(150, *shape, scale=scale, shift=shift * scale)
    assert_close(matched(structure, train, train), train, rtol=1e-8, atol=1e-8 * scale)


@pytest.mark.parametrize(
    "structure", [SpatialFull(EXACT), ChannelMoments(), Dense(EXACT), Spectrum(floor=0.0), Spectrum("dft", floor=0.0)]
)
@given(seed=st.integers(0, 100))
@settings(max_examples=10)
def test_moments_after_matching_are_those_of_training(structure: Covariance, seed: int) -> None:
    train, test = maps(400, 2, 3, 4), maps(300, 2, 3, 4, seed=seed + 1, scale=3.0, shift=-2.0) ** 3 / 50
    after = structure.measure(matched(structure, test, train))
    for now, wanted in zip(after, structure.measure(train), strict=True):
        assert_close(now.mean, wanted.mean, rtol=1e-6, atol=1e-6)
        assert_close(now.covariance, wanted.covariance, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["SpatialKronecker", "ChannelJoint"])
def test_sequential_matching_is_exact_in_the_view_it_ends_with(name: str) -> None:
    structure = STRUCTURES[name](regularisation=EXACT)
    train = maps(400, 2, 3, 4)
    after = structure.measure(matched(structure, maps(300, 2, 3, 4, seed=1, scale=3.0), train))[-1]
    wanted = structure.measure(train)[-1]
    assert_close(after.mean, wanted.mean, rtol=1e-6, atol=1e-6)
    assert_close(after.covariance, wanted.covariance, rtol=1e-6, atol=1e-6)


def test_one_shot_kronecker_is_exact_where_the_covariance_is_a_kronecker_product() -> None:
    structure, train, test = Kronecker(EXACT), _separable(seed=0), _separable(seed=1) * 3 + 5
    after = structure.measure(matched(structure, test, train))
    for now, wanted in zip(after, structure.measure(train), strict=True):
        assert_close(now.mean, wanted.mean, rtol=1e-6, atol=1e-6)
        assert_close(now.covariance, wanted.covariance, rtol=1e-6, atol=1e-6)


def _separable(seed: int) -> Tensor:
    """Images whose covariance is a Kronecker product exactly: A Z B for every sign of every unit matrix Z."""
    units = torch.eye(12, dtype=torch.float64).reshape(12, 1, 3, 4)
    images = torch.cat([units, -units])
    return randn(3, 3, seed=seed) @ images @ randn(4, 4, seed=seed + 10)


def test_kronecker_equals_the_dense_product() -> None:
    train, test = maps(90, 2, 5, 4), maps(70, 2, 5, 4, seed=1, scale=2.0, shift=1.0)
    expected = slow.kronecker(test.numpy(), train.numpy())
    np.testing.assert_allclose(matched(Kronecker(EXACT), test, train), expected, rtol=1e-9, atol=1e-9)


def test_dense_equals_the_formula() -> None:
    train, test = randn(60, 5), randn(50, 5, seed=1) @ randn(5, 5, seed=2) + 3
    expected = slow.match(test.numpy(), train.numpy())
    np.testing.assert_allclose(matched(Dense(EXACT), test, train), expected, rtol=1e-9, atol=1e-9)


LAYOUTS = {
    "contiguous": lambda x: x,
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "images inside": lambda x: x.permute(1, 2, 0, 3).contiguous().permute(2, 0, 1, 3),
    "every second": lambda x: x.repeat_interleave(2, dim=1)[:, ::2],
}
SLOW: dict[str, tuple[Covariance, Callable[[slow.Array, slow.Array], slow.Array]]] = {
    "rows and columns": (SpatialKronecker(EXACT), slow.spatial_kronecker),
    "spectrum": (Spectrum(), lambda test, train: slow.spectrum(test, train, 0, 0)),
}


@pytest.mark.parametrize("case", list(SLOW))
@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("chunk", [2000, 1 << 22])
def test_every_layout_equals_the_slow_version(
    case: str, layout: str, dtype: torch.dtype, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "CHUNK_BYTES", chunk)
    tolerance = 1e-9 if dtype == torch.float64 else 1e-4
    train, test = maps(90, 3, 5, 4), maps(71, 3, 5, 4, seed=1, scale=2.0, shift=1.0)
    structure, expected = SLOW[case]
    x = LAYOUTS[layout](test.to(dtype))
    before = x.clone()
    found = matched(structure, x, LAYOUTS[layout](train))
    assert found.dtype == dtype
    np.testing.assert_allclose(
        found,
        expected(test.numpy(), train.numpy()),
        rtol=tolerance,
        atol=tolerance,
    )
    assert torch.equal(x, before)


@EVERY_STRUCTURE
def test_float32_agrees_with_float64(structure: Covariance) -> None:
    train, test = maps(200, 3, 4, 5), maps(200, 3, 4, 5, seed=1, scale=2.0)
    exact, quick = matched(structure, test, train), matched(structure, test.float(), train)
    assert quick.dtype == torch.float32
    assert_close(quick.double(), exact, rtol=1e-4, atol=1e-4)


@EVERY_STRUCTURE
@pytest.mark.parametrize("constant", ["train", "test", "both"])
def test_constant_channels_pass_through(structure: Covariance, constant: str) -> None:
    train, test = maps(50, 2, 3, 4), maps(40, 2, 3, 4, seed=1)
    if type(structure).__name__ in {"ChannelJoint", "ChannelCovariance", "Dense"}:  # they know no single channels
        train, test = train[:, :1], test[:, :1]
    if constant in {"train", "both"}:
        train[:, 0] = 0.1
    if constant in {"test", "both"}:
        test[:, 0] = 0.3
    found = matched(structure, test, train)
    assert_close(found[:, 0], test[:, 0])
    assert found.isfinite().all()


@EVERY_STRUCTURE
@pytest.mark.parametrize("images", [2, 3, 5])
def test_rank_deficient_batches_stay_finite(structure: Covariance, images: int) -> None:
    assert matched(structure, maps(images, 3, 6, 5, seed=1), maps(100, 3, 6, 5)).isfinite().all()


@EVERY_STRUCTURE
def test_nan_and_infinity_are_refused(structure: Covariance) -> None:
    for bad in (float("nan"), float("inf")):
        x = maps(20, 2, 3, 3)
        x[3, 1, 0, 0] = bad
        with pytest.raises(NonFiniteError):
            structure.measure(x)
        with pytest.raises(NonFiniteError):
            matched(structure, x, maps(20, 2, 3, 3))


@pytest.mark.parametrize("structure", [SpatialFull(), Dense()])
def test_covariances_beyond_memory_are_refused_with_advice(structure: Covariance) -> None:
    with pytest.raises(InputError, match=r"\d+ matrices of \d+ × \d+ here, \d+ GB. Use Spectrum"):
        structure.measure(torch.zeros(2, 64, 112, 112))


@EVERY_STRUCTURE
def test_an_infinite_prior_is_the_identity(structure: Covariance) -> None:
    test = maps(40, 2, 3, 4, seed=1, scale=2.0, shift=1.0)
    assert_close(matched(structure, test, maps(200, 2, 3, 4), float("inf")), test, rtol=1e-8, atol=1e-8)


@EVERY_STRUCTURE
def test_gradients_flow_through_features_not_through_moments(structure: Covariance) -> None:
    train, x = maps(50, 2, 3, 4), maps(30, 2, 3, 4, seed=1)
    with_gradients = x.clone().requires_grad_()
    found = matched(structure, with_gradients, train)
    assert_close(found.detach(), matched(structure, x, train))
    found[0].sum().backward()
    assert with_gradients.grad is not None
    assert with_gradients.grad[0].abs().max() > 0
    assert_close(with_gradients.grad[1:], torch.zeros_like(x[1:]))  # through moments it would reach other images


@EVERY_STRUCTURE
def test_the_order_of_images_does_not_matter(structure: Covariance) -> None:
    train, test = maps(50, 2, 3, 4), maps(30, 2, 3, 4, seed=1)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(0))
    assert_close(matched(structure, test[order], train), matched(structure, test, train)[order])


def test_matrices_take_one_prior() -> None:
    structure, x = SpatialKronecker(), maps(20, 2, 3, 3)
    with pytest.raises(InputError, match="Spectrum takes two"):
        structure.transport(x, structure.target(structure.measure(x), (3, 3)), Prior(1, 2), 20)
