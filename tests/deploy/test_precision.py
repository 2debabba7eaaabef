"""Half precision, and devices that are not at hand: statistics stay in single precision, and nothing leaves its device.

There is no GPU where these tests run, and PyTorch's build for CPUs cannot pretend to have one: tensors that only have a
shape stand in for it.
"""

from typing import Any

import pytest
import torch
from made_matched import corrupted, matched, small_network
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.testing import assert_close
from torch.utils._pytree import tree_map

import shiftmatch as sm


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("covariance", [sm.Spectrum(), sm.Spectrum(basis="dft"), sm.ChannelMoments()], ids=repr)
def test_half_precision_keeps_statistics_in_single(dtype: torch.dtype, covariance: sm.Covariance) -> None:
    robust, x = matched(covariance=covariance), corrupted(50)
    exact = robust(x)
    half = robust.to(dtype)
    assert {buffer.real.dtype for buffer in half.sites.buffers()} == {torch.float32}
    found = half(x.to(dtype))
    assert found.dtype == dtype
    assert_close(found.float(), exact, rtol=0.1, atol=0.1)


def test_autocast_matches_in_single_precision() -> None:
    robust, x = matched(), corrupted(50)
    exact = robust(x)
    with torch.autocast("cpu", torch.bfloat16), torch.inference_mode():
        found = robust(x)
    assert found.dtype == torch.bfloat16
    assert_close(found.float(), exact, rtol=0.05, atol=0.05)


def test_frozen_networks_and_streams_transform_in_single_precision_too() -> None:
    robust, x = matched(), corrupted(50)
    frozen, camera = sm.freeze(robust, x), sm.stream(small_network(), robust.statistics)
    exact = frozen(x), camera(x)
    camera.reset()
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        assert_close((frozen(x).float(), camera(x).float()), exact, rtol=0.05, atol=0.05)
    assert camera._first.waiting == []
    assert all(part.moments.mean.dtype == torch.float32 for part in camera._parts.values() if part.moments)


@pytest.fixture
def without_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors without values cannot be asked whether they are finite."""
    monkeypatch.setattr("shiftmatch.core.spectrum.check_batch", lambda test: None)


@pytest.mark.usefixtures("without_values")
@pytest.mark.parametrize("covariance", [sm.Spectrum(), sm.ChannelMoments()], ids=repr)
def test_meta_tensors_pass_through(covariance: sm.Covariance) -> None:
    found = matched(covariance=covariance).to("meta")(corrupted(50).to("meta"))
    assert (found.device.type, found.shape) == ("meta", (50, 10))


@pytest.mark.usefixtures("without_values")
def test_fake_tensors_pass_through() -> None:
    robust, mode = matched(), FakeTensorMode()  # of a GPU only where PyTorch was built for one

    def fake(x: Any) -> Any:
        return mode.from_tensor(x, static_shapes=True) if isinstance(x, torch.Tensor) else x

    for module in robust.modules():
        for tensors in (module._parameters, module._buffers):
            tensors.update(tree_map(fake, dict(tensors)))
    x = fake(corrupted(50))
    with mode, torch.no_grad():
        found = robust(x)
    assert (type(found), found.shape) == (FakeTensor, (50, 10))
