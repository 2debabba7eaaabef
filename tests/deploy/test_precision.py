"""Half precision, and devices that are not at hand: statistics stay in single precision, and nothing leaves its device.

There is no GPU where these tests run: tensors that only have a shape and say that they are on one stand in for it.
"""

from typing import Any

import pytest
import torch
from made_matched import corrupted, matched, small_network
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.testing import assert_close

import shiftmatch as sm

aten = torch.ops.aten


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


class WithoutGuards(TorchFunctionMode):
    """x[…] and copy_ by other operations: in these PyTorch's build for CPUs asks for a GPU that only pretends."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.copy_:
            assert args[0].device == args[1].device
            return args[0]
        if func is not torch.Tensor.__getitem__:
            return func(*args, **(kwargs or {}))
        x, places = args[0], args[1] if isinstance(args[1], tuple) else (args[1],)
        left = x.ndim - sum(place is not None and place is not ... for place in places)
        axis = 0
        for place in places:
            if place is ...:
                axis += left
            elif isinstance(place, int):
                x = x.select(axis, place)
            else:
                x = x.unsqueeze(axis) if place is None else aten.slice.Tensor(x, axis, place.start, place.stop)
                axis += 1
        return x


@pytest.mark.usefixtures("without_values")
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("covariance", [sm.Spectrum(), sm.ChannelMoments()], ids=repr)
def test_fake_tensors_stay_on_their_device(device: str, dtype: torch.dtype, covariance: sm.Covariance) -> None:
    robust, mode = matched(covariance=covariance).to(dtype), FakeTensorMode()

    def fake(x: Any) -> Any:  # an operation between devices would be refused
        with mode:
            return x if x is None else torch.empty(x.shape, dtype=x.dtype, device=device)

    for module in robust.modules():
        for tensors in (module._parameters, module._buffers):
            tensors.update({name: fake(x) for name, x in tensors.items()})
    with mode, WithoutGuards(), torch.no_grad():
        found = robust(torch.empty(50, 3, 8, 8, dtype=dtype, device=device))
    assert (type(found), found.device.type, found.dtype, found.shape) == (FakeTensor, device, dtype, (50, 10))
