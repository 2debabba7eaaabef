"""The compiled kernels give what the slow NumPy version and PyTorch's operations give."""

import sys
from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import pytest
import torch
from networks import SmallBatchNormNet
from randomness import maps
from references import slow
from torch.testing import assert_close

import shiftmatch as sm
from shiftmatch.core import kernels
from shiftmatch.core.spectrum import Prior, Spectrum
from shiftmatch.errors import NonFiniteError

pytestmark = pytest.mark.skipif(kernels._kernels is None, reason="the kernels were not built here")

SHAPES = [(31, 3, 32, 32), (40, 2, 16, 16), (33, 4, 8, 8), (5, 3, 7, 7), (9, 2, 14, 9), (4, 2, 9, 17), (3, 2, 1, 5),
          (6, 1, 5, 1), (2, 2, 2, 2), (4, 3, 1, 1), (3, 1, 57, 40), (2, 3, 112, 56), (3, 2, 20, 22)]  # fmt: skip
PRIORS = [Prior(16.0, 300.0), Prior(0.0, 0.0), Prior(4.0, 9.0), Prior(float("inf"), 5.0)]


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def target_of(train: torch.Tensor) -> dict[str, torch.Tensor]:
    target = Spectrum().target(Spectrum().measure(train.double()), train.shape[2:])
    return {name: tensor.float() for name, tensor in target.items()}


def by_pytorch(x: torch.Tensor, target: dict[str, torch.Tensor], prior: Prior) -> torch.Tensor:
    with patch.object(kernels, "_kernels", None):
        return Spectrum().transport(x, target, prior, len(x))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("prior", PRIORS)
def test_matching_equals_the_slow_version(shape: tuple[int, ...], prior: Prior) -> None:
    train, test = maps(60, *shape[1:]), maps(*shape, seed=1, scale=2.0, shift=1.0)
    found = Spectrum().transport(test.float(), target_of(train), prior, len(test))
    expected = slow.spectrum(test.numpy(), train.numpy(), *prior)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_moments_equal_those_in_double_precision(shape: tuple[int, ...]) -> None:
    x = maps(*shape, shift=3.0)
    (found,), (expected,) = Spectrum().measure(x.float()), Spectrum().measure(x)
    assert_close(found.mean, expected.mean, rtol=1e-5, atol=1e-4)
    assert_close(found.scatter, expected.scatter, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_fixed_map_keeps_the_coefficients_apart(shape: tuple[int, ...]) -> None:
    x, target = maps(*shape).float(), target_of(maps(*shape))
    gain, offset = torch.rand(2, shape[1], shape[2] * shape[3]) + 0.5
    kept = torch.empty_like(x)
    moved, z = kernels.move(x, gain, offset, kept), Spectrum().coefficients(x, target)
    assert_close(kept, z, rtol=1e-4, atol=1e-4)
    expected = Spectrum().features(gain.reshape(shape[1:]) * z + offset.reshape(shape[1:]), target, shape[2:])
    assert_close(moved, expected, rtol=1e-4, atol=1e-4)
    assert torch.equal(kernels.move(x, gain, offset), moved)


@pytest.mark.parametrize("shape", [*SHAPES, (31, 8, 32, 32), (5, 24, 14, 14), (3, 19, 6, 5)])
def test_channels_may_be_last(shape: tuple[int, ...]) -> None:
    x, target = maps(*shape, scale=2.0).float(), target_of(maps(60, *shape[1:], seed=1))
    last = x.contiguous(memory_format=torch.channels_last)
    gain, offset = torch.rand(2, shape[1], shape[2] * shape[3]) + 0.5
    found = Spectrum().transport(last, target, Prior(16, 300), len(x))
    assert found.stride() == last.stride()
    assert_close(found, Spectrum().transport(x, target, Prior(16, 300), len(x)))
    assert_close(kernels.measure(last), kernels.measure(x))
    kept, expected = torch.empty_like(last), torch.empty_like(x)
    assert_close(kernels.move(last, gain, offset, kept), kernels.move(x, gain, offset, expected))
    assert_close(kept, expected)
    before = torch.rand(2, shape[1], 1) + 0.5
    scaled = kernels.match(x, target, (0.1, 0.2, 0.3), (before[0], before[1]))
    assert kernels.match(last, target, (0.1, 0.2, 0.3), (before[0], before[1]), out=last) is last  # in its own memory
    assert_close(last, scaled, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-12, 1e-4, 1e4, 1e12])
def test_scales_of_the_features_do_not_matter(scale: float) -> None:
    train, test = maps(60, 3, 8, 8), maps(31, 3, 8, 8, seed=1, shift=0.5).float()
    found = Spectrum().transport(scale * test, target_of(scale * train), Prior(0, 0), 31)
    assert_close(found / scale, Spectrum().transport(test, target_of(train), Prior(0, 0), 31), rtol=1e-4, atol=1e-4)


def test_an_outlier_in_the_first_image_costs_no_accuracy() -> None:
    x, target = maps(1000, 1, 8, 8).float(), target_of(maps(60, 1, 8, 8))
    x[0] *= 1000
    exact = Spectrum().transport(x.double(), target, Prior(0, 0), 1000)
    assert_close(Spectrum().transport(x, target, Prior(0, 0), 1000).double(), exact, rtol=1e-4, atol=1e-4)


def test_constant_channels_stay_as_they_are() -> None:
    train, test = maps(60, 3, 8, 8), maps(31, 3, 8, 8, seed=1).float()
    train[:, 0], test[:, 1] = 3.0, -2.0
    found = Spectrum().transport(test, target_of(train), Prior(16, 300), 31)
    assert_close(found[:, :2], test[:, :2], rtol=1e-5, atol=1e-5)
    assert not torch.allclose(found[:, 2], test[:, 2], atol=1e-3)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_not_finite_are_refused(value: float) -> None:
    x = maps(31, 3, 8, 8).float()
    x[5, 1, 2, 3] = value
    with pytest.raises(NonFiniteError):
        Spectrum().transport(x, target_of(maps(60, 3, 8, 8)), Prior(16, 300), 31)
    with pytest.raises(NonFiniteError):
        Spectrum().measure(x)


@pytest.mark.parametrize("shape", [(40, 5, 32, 32), (40, 3, 16, 16)])
def test_the_number_of_threads_does_not_matter(shape: tuple[int, ...]) -> None:
    x, target, found = maps(*shape).float(), target_of(maps(*shape, seed=1)), []
    for threads in (1, 2, 3, 7):
        torch.set_num_threads(threads)
        found.append((Spectrum().transport(x, target, Prior(16, 300), 40), Spectrum().measure(x)[0].scatter))
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(other, found[0], strict=True))


def test_other_features_are_left_to_pytorch() -> None:
    x = maps(4, 3, 8, 8).float()
    assert kernels.serve(x)
    assert not kernels.serve(x.double())
    assert not kernels.serve(x, x.double())
    assert not kernels.serve(x.bfloat16())
    assert kernels.serve(x.contiguous(memory_format=torch.channels_last))
    assert not kernels.serve(x, x.contiguous(memory_format=torch.channels_last))
    assert not kernels.serve(x[:, :, ::2])
    assert not kernels.serve(x[0])
    assert not kernels.serve(x[:0])
    assert not kernels.serve(x.to("meta"))
    assert not kernels.serve(torch.nn.Parameter(x))
    assert not kernels.serve(x.clone().requires_grad_())
    assert not kernels.serve(x.unsqueeze(-1))


@pytest.mark.filterwarnings("ignore")  # that tracing is deprecated, and that it fixes the check of the batch
def test_a_traced_graph_holds_no_result_of_the_kernels() -> None:
    x, target = maps(20, 3, 8, 8).float(), target_of(maps(60, 3, 8, 8))

    def transported(features: torch.Tensor) -> torch.Tensor:
        return Spectrum().transport(features, target, Prior(16, 300), 20)

    graph = torch.jit.trace(transported, x, check_trace=False)
    assert_close(graph(2 * x + 1), transported(2 * x + 1), rtol=1e-4, atol=1e-4)


def test_without_them_results_are_the_same() -> None:
    x, target = maps(20, 3, 32, 32, scale=2.0).float(), target_of(maps(60, 3, 32, 32))
    assert_close(by_pytorch(x, target, Prior(16, 300)), Spectrum().transport(x, target, Prior(16, 300), 20))


def test_they_can_be_left_out_and_need_not_have_been_built(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernels._load() is kernels._kernels
    monkeypatch.setenv("SHIFTMATCH_PURE", "1")
    assert kernels._load() is None
    monkeypatch.delenv("SHIFTMATCH_PURE")
    monkeypatch.setitem(sys.modules, "shiftmatch.core._kernels", None)  # an import that fails
    assert kernels._load() is None


def test_without_them_a_fitted_and_matched_network_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    net, train, test = SmallBatchNormNet(), maps(200, 3, 8, 8).float(), maps(100, 3, 8, 8, seed=1, scale=2.0).float()
    built = sm.match(net, sm.fit(net, train, progress=False))(test)
    monkeypatch.setattr(kernels, "_kernels", None)
    assert_close(sm.match(net, sm.fit(net, train, progress=False))(test), built, rtol=1e-4, atol=1e-4)
