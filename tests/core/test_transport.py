import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from randomness import maps, randn
from references import slow
from torch import Tensor
from torch.testing import assert_close

from shiftmatch.core import pieces
from shiftmatch.core.covariance import (
    STRUCTURES,
    ChannelMoments,
    Covariance,
    Dense,
    Kronecker,
    SpatialFull,
    SpatialKronecker,
    Tolerance,
)
from shiftmatch.core.linalg import Ridge
from shiftmatch.core.transport import measure, transport
from shiftmatch.errors import InputError, NonFiniteError

EXACT = Tolerance(test=Ridge(), train=Ridge())  # no jitter
EVERY_STRUCTURE = pytest.mark.parametrize("structure", [kind() for kind in STRUCTURES.values()], ids=list(STRUCTURES))


@EVERY_STRUCTURE
@given(
    shape=st.sampled_from([(3,), (2, 4), (2, 4, 6), (3, 5, 5), (1, 6, 1), (2, 3, 2, 4)]),
    scale=st.sampled_from([1e-12, 1.0, 1e12]),
    shift=st.sampled_from([0.0, 10.0]),
)
@settings(max_examples=20)
def test_identity_on_training_data(structure: Covariance, shape: tuple[int, ...], scale: float, shift: float) -> None:
    train = maps(150, *shape, scale=scale, shift=shift * scale)
    matched = transport(train, structure, measure(structure, train))
    assert_close(matched, train, rtol=1e-8, atol=1e-8 * scale)


@pytest.mark.parametrize(
    "structure", [SpatialFull(EXACT), ChannelMoments(EXACT), Dense(EXACT)], ids=lambda s: type(s).__name__
)
@given(seed=st.integers(0, 100))
@settings(max_examples=10)
def test_covariance_after_matching_is_that_of_training(structure: Covariance, seed: int) -> None:
    train, test = maps(400, 2, 3, 4), maps(300, 2, 3, 4, seed=seed + 1, scale=3.0, shift=-2.0) ** 3 / 50
    goal = measure(structure, train)
    after = measure(structure, transport(test, structure, goal))
    for now, wanted in zip(after, goal, strict=True):
        assert_close(now.mean, wanted.mean, rtol=1e-6, atol=1e-6)
        assert_close(now.covariance, wanted.covariance, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["SpatialKronecker", "ChannelJoint"])
def test_sequential_matching_is_exact_in_the_view_it_ends_with(name: str) -> None:
    structure = STRUCTURES[name](EXACT)
    goal = measure(structure, maps(400, 2, 3, 4))
    after = measure(structure, transport(maps(300, 2, 3, 4, seed=1, scale=3.0), structure, goal))
    assert_close(after[-1].mean, goal[-1].mean, rtol=1e-6, atol=1e-6)
    assert_close(after[-1].covariance, goal[-1].covariance, rtol=1e-6, atol=1e-6)


def test_one_shot_kronecker_is_exact_where_the_covariance_is_a_kronecker_product() -> None:
    structure = Kronecker(EXACT)
    train, test = _separable(seed=0), _separable(seed=1) * 3 + 5
    goal = measure(structure, train)
    after = measure(structure, transport(test, structure, goal))
    for now, wanted in zip(after, goal, strict=True):
        assert_close(now.mean, wanted.mean, rtol=1e-6, atol=1e-6)
        assert_close(now.covariance, wanted.covariance, rtol=1e-6, atol=1e-6)


def _separable(seed: int) -> Tensor:
    """Images whose covariance is a Kronecker product exactly: A Z B for every sign of every unit matrix Z."""
    units = torch.eye(12, dtype=torch.float64).reshape(12, 1, 3, 4)
    images = torch.cat([units, -units])
    return randn(3, 3, seed=seed) @ images @ randn(4, 4, seed=seed + 10)


def test_spatial_kronecker_equals_the_slow_version() -> None:
    train, test = maps(90, 3, 5, 4), maps(70, 3, 5, 4, seed=1, scale=2.0, shift=1.0)
    structure = SpatialKronecker(EXACT)
    matched = transport(test, structure, measure(structure, train))
    np.testing.assert_allclose(matched, slow.spatial_kronecker(test.numpy(), train.numpy()), rtol=1e-9, atol=1e-9)


def test_kronecker_equals_the_dense_product() -> None:
    train, test = maps(90, 2, 5, 4), maps(70, 2, 5, 4, seed=1, scale=2.0, shift=1.0)
    matched = transport(test, Kronecker(EXACT), measure(Kronecker(), train))
    np.testing.assert_allclose(matched, slow.kronecker(test.numpy(), train.numpy()), rtol=1e-9, atol=1e-9)


def test_dense_equals_the_formula() -> None:
    train, test = randn(60, 5), randn(50, 5, seed=1) @ randn(5, 5, seed=2) + 3
    matched = transport(test, Dense(EXACT), measure(Dense(), train))
    np.testing.assert_allclose(matched, slow.match(test.numpy(), train.numpy()), rtol=1e-9, atol=1e-9)


@EVERY_STRUCTURE
def test_float32_agrees_with_float64(structure: Covariance) -> None:
    train, test = maps(200, 3, 4, 5), maps(200, 3, 4, 5, seed=1, scale=2.0)
    goal = measure(structure, train)
    exact, quick = transport(test, structure, goal), transport(test.float(), structure, goal)
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
    matched = transport(test, structure, measure(structure, train))
    assert_close(matched[:, 0], test[:, 0])
    assert matched.isfinite().all()


@EVERY_STRUCTURE
@pytest.mark.parametrize("images", [2, 3, 5])
def test_rank_deficient_batches_stay_finite(structure: Covariance, images: int) -> None:
    goal = measure(structure, maps(100, 3, 6, 5))
    matched = transport(maps(images, 3, 6, 5, seed=1), structure, goal)
    assert matched.isfinite().all()


@EVERY_STRUCTURE
def test_nan_and_infinity_are_refused(structure: Covariance) -> None:
    for bad in (float("nan"), float("inf")):
        x = maps(20, 2, 3, 3)
        x[3, 1, 0, 0] = bad
        with pytest.raises(NonFiniteError):
            measure(structure, x)


@pytest.mark.parametrize("structure", [SpatialFull(), Dense()])
def test_covariances_beyond_memory_are_refused_with_advice(structure: Covariance) -> None:
    with pytest.raises(InputError, match=r"\d+ covariances of \d+ × \d+ here, \d+ GB. Use SpatialKronecker"):
        measure(structure, torch.zeros(2, 64, 112, 112))


def test_no_batch_at_all_is_returned_as_it_is() -> None:
    goal = measure(SpatialKronecker(), maps(20, 2, 3, 3))
    empty = torch.empty(0, 2, 3, 3)
    assert transport(empty, SpatialKronecker(), goal) is empty


@EVERY_STRUCTURE
def test_full_weight_of_training_is_the_identity(structure: Covariance) -> None:
    goal = measure(structure, maps(200, 2, 3, 4))
    test = maps(40, 2, 3, 4, seed=1, scale=2.0, shift=1.0)
    assert_close(transport(test, structure, goal, weight=1.0), test, rtol=1e-8, atol=1e-8)


def test_gradients_flow_through_features_not_through_moments() -> None:
    goal = measure(SpatialKronecker(), maps(50, 2, 3, 4))
    x = maps(30, 2, 3, 4, seed=1).requires_grad_()
    transport(x, SpatialKronecker(), goal).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@EVERY_STRUCTURE
def test_autocast_does_not_reach_the_maths(structure: Covariance) -> None:
    train, x = maps(50, 2, 3, 4).float(), maps(60, 2, 3, 4, seed=1).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        goal = measure(structure, train)
        inside = transport(x, structure, goal)
    assert_close(inside, transport(x, structure, measure(structure, train)))


@pytest.fixture
def tiny_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three channels in groups of two, images in pieces of a few."""
    monkeypatch.setattr(pieces, "PIECE_BYTES", 2000)
    monkeypatch.setattr(pieces, "GROUP_BYTES", 2 * 71 * 5 * 4 * 8)


LAYOUTS = {
    "contiguous": lambda x: x,
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "images inside": lambda x: x.permute(1, 2, 0, 3).contiguous().permute(2, 0, 1, 3),
    "every second": lambda x: x.repeat_interleave(2, dim=1)[:, ::2],
}


@pytest.mark.usefixtures("tiny_pieces")
@pytest.mark.parametrize("name", list(LAYOUTS))
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_groups_and_pieces_equal_the_slow_version(name: str, dtype: torch.dtype, tolerance: float) -> None:
    train, test = maps(90, 3, 5, 4), maps(71, 3, 5, 4, seed=1, scale=2.0, shift=1.0)
    expected = slow.spatial_kronecker(test.numpy(), train.numpy())
    structure, x = SpatialKronecker(EXACT), LAYOUTS[name](test.to(dtype))
    before = x.clone()
    matched = transport(x, structure, measure(structure, LAYOUTS[name](train)))
    assert matched.dtype == dtype
    np.testing.assert_allclose(matched, expected, rtol=tolerance, atol=tolerance)
    assert torch.equal(x, before)
    if name in {"contiguous", "channels last"}:
        assert matched.stride() == x.stride()


@EVERY_STRUCTURE
@pytest.mark.usefixtures("tiny_pieces")
def test_gradients_do_not_change_what_comes_out(structure: Covariance) -> None:
    goal = measure(structure, maps(90, 3, 5, 4))
    x = maps(71, 3, 5, 4, seed=1, scale=2.0)
    assert_close(transport(x.clone().requires_grad_(), structure, goal).detach(), transport(x, structure, goal))


@EVERY_STRUCTURE
def test_newton_schulz_moves_to_the_same_place(structure: Covariance) -> None:
    goal, x = measure(structure, maps(90, 3, 5, 4)), maps(71, 3, 5, 4, seed=1, scale=2.0)
    assert_close(
        transport(x, structure, goal, roots="newton-schulz"), transport(x, structure, goal), rtol=1e-7, atol=1e-7
    )


@EVERY_STRUCTURE
def test_a_part_of_the_batch_stands_for_the_whole(structure: Covariance) -> None:
    goal, half = measure(structure, maps(90, 3, 5, 4)), maps(60, 3, 5, 4, seed=1, scale=2.0)
    twice = half.repeat_interleave(2, dim=0)
    part = transport(twice, structure, goal, every=2)
    assert_close(part[::2], transport(half, structure, goal))
    assert_close(part, transport(twice, structure, goal))
