"""A site does the work of its BatchNorm: with equal results, and in its memory only where nobody else looks at it."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from made_matched import corrupted, images, small_network
from randomness import maps
from references import slow
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.testing import assert_close

import shiftmatch as sm
from shiftmatch.core import kernels
from shiftmatch.matching import matcher

needs_kernels = pytest.mark.skipif(kernels._kernels is None, reason="the kernels were not built here")


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matcher, "LARGE", 0)


def network(side: int) -> nn.Module:
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(6)
    norm.running_mean, norm.running_var = torch.randn(6), torch.rand(6) + 0.5
    norm.weight.data[:2] = torch.tensor([0.0, -2.0])
    last = nn.AvgPool2d(side), nn.Flatten(), nn.Linear(6, 4)
    return nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), norm, nn.ReLU(inplace=True), *last).eval()


def places(robust: nn.Module, x: Tensor, layer: str = "1") -> tuple[int, int]:
    """Where the input of the BatchNorm and the matched features lie in memory."""
    found: list[int] = []
    batchnorm = robust.get_submodule(f"network.{layer}")
    hooks = [
        batchnorm.register_forward_pre_hook(lambda _, args: found.append(args[0].data_ptr())),
        batchnorm.register_forward_hook(lambda _, args, output: found.append(output.data_ptr())),
    ]
    robust(x)
    for hook in hooks:
        hook.remove()
    return found[0], found[1]


def one_after_the_other(robust: sm.MatchedModel, x: Tensor) -> Tensor:
    """The output with BatchNorm and site apart: a hook asks for what is between them."""
    hooks = [site.register_forward_pre_hook(lambda *_: None) for site in robust.sites]
    output: Tensor = robust(x)
    for hook in hooks:
        hook.remove()
    return output


def kernel_calls(run: Callable[[], object]) -> list[bool]:
    """Of the calls of the kernel, whether they did the work of a BatchNorm as well."""
    found, match = [], kernels.match

    def noted(*args: Any) -> Tensor:
        found.append(len(args) > 3 and args[3] is not None)
        return match(*args)

    with patch.object(kernels, "match", noted):
        run()
    return found


@needs_kernels
@pytest.mark.parametrize("affine", [True, False], ids=["affine", "not affine"])
@pytest.mark.parametrize("count", [1, 2, 7, 31])
@pytest.mark.parametrize("size", [(8, 8), (7, 7), (5, 12), (1, 3)], ids=str)
def test_both_at_once_equal_the_slow_version(size: tuple[int, int], count: int, affine: bool) -> None:
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(6, affine=affine).eval()
    norm.running_mean, norm.running_var = 3 * torch.randn(6), torch.rand(6) + 0.1
    if affine:
        norm.weight.data, norm.bias.data = torch.randn(6), torch.randn(6)
        norm.weight.data[4] = 0  # a constant channel
    same = nn.Conv2d(6, 6, 1, bias=False)
    nn.init.dirac_(same.weight)
    net = nn.Sequential(same, norm, nn.ReLU(), nn.Flatten(), nn.Linear(6 * size[0] * size[1], 2)).eval()
    train, test = maps(60, 6, *size).float(), maps(count, 6, *size, seed=1, scale=2.0, shift=1.0).float()
    test[:, 5] = 2.0
    statistics = sm.fit(net, train, sites=lambda site: not site.is_input, progress=False)
    robust = sm.match(net, statistics, prior_images=(16, 300))
    features: list[Tensor] = []
    robust.get_submodule("network.1").register_forward_hook(lambda *call: features.append(call[2]))
    with torch.no_grad():
        assert kernel_calls(lambda: robust(test)) == [True]
        one_after_the_other(robust, test)
        with patch.object(kernels, "_kernels", None):
            robust(test)
        normalised = [norm.double()(x.double()).numpy() for x in (test, train)]
    varies, expected = [0, 1, 2, 3] if affine else [0, 1, 2, 3, 4], normalised[0].copy()
    expected[:, varies] = slow.spectrum(normalised[0][:, varies], normalised[1][:, varies], 16, 300)
    for found in features:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert len(features) == 3


@needs_kernels
def test_layer_and_site_are_apart_where_somebody_looks() -> None:
    net, x = small_network(), corrupted(50)
    robust = sm.match(net, sm.fit(net, images(100), progress=False))
    with torch.no_grad():
        assert any(kernel_calls(lambda: robust(x)))
        assert not any(kernel_calls(lambda: one_after_the_other(robust, x)))
        assert not any(kernel_calls(lambda: robust.double()(x.double())))
    robust = sm.match(net, robust.statistics)
    assert not any(kernel_calls(lambda: robust(x)))  # gradients
    for name, parameter in net.named_parameters():
        parameter.requires_grad = name.startswith("1.")
    robust = sm.match(net, robust.statistics)
    robust(x).sum().backward()
    assert net.get_parameter("1.weight").grad is not None  # also where only those of the BatchNorm are asked for


@needs_kernels
def test_below_the_limit_nothing_is_overwritten() -> None:
    net, x = small_network(), corrupted(50)
    robust = sm.match(net, sm.fit(net, images(100), progress=False))
    kept: list[Tensor] = []
    robust.get_submodule("network.0").register_forward_hook(lambda *call: kept.extend([call[2], call[2].clone()]))
    with torch.no_grad():
        assert any(kernel_calls(lambda: robust(x)))
    assert torch.equal(*kept)


@pytest.mark.parametrize("side", [8, 12], ids="{0} x {0}".format)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_the_result_is_the_same_and_inputs_stay(
    side: int, layout: torch.memory_format, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = network(side).to(memory_format=layout)  # type: ignore[call-overload]
    train = torch.randn(300, 3, side, side)
    robust = sm.match(net, sm.fit(net, train, progress=False))
    x = (2 * train + 1).to(memory_format=layout)
    kept = x.clone()
    with torch.no_grad():
        expected = robust(x)
        before, result = places(robust, x)
        assert before != result
        monkeypatch.setattr(matcher, "LARGE", 0)
        before, result = places(robust, x)
        assert before == result
        assert_close(robust(x), expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(x, kept)


@pytest.mark.usefixtures("everything_is_large")
def test_nothing_is_overwritten_that_a_hook_or_a_gradient_needs() -> None:
    net, x = small_network(), corrupted(50)
    robust = sm.match(net, sm.fit(net, images(100), progress=False))
    conv, seen = robust.get_submodule("network.0"), []

    def look(module: nn.Module, args: object, output: Tensor) -> None:
        if module is conv:
            seen.append((output, output.clone()))

    with torch.no_grad():
        expected = robust(x)
        for add in (conv.register_forward_hook, register_module_forward_hook):
            hook = add(look)
            assert_close(robust(x), expected, rtol=1e-5, atol=1e-5)
            hook.remove()
    assert len(seen) == 2
    assert all(torch.equal(*pair) for pair in seen)
    assert len(set(places(robust, x))) == 2
    robust(x).sum().backward()
    assert net.get_parameter("1.weight").grad is not None


class Branching(nn.Module):
    """The output of the convolution goes to its BatchNorm, and around it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.act, self.last = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Linear(144, 5)

    def forward(self, x: Tensor) -> Tensor:
        made = self.conv(x)
        out: Tensor = self.last((self.act(self.norm(made)) + 0.1 * made).flatten(1))
        return out


@pytest.mark.usefixtures("everything_is_large")
def test_what_another_layer_takes_is_left_alone() -> None:
    net, x = Branching().eval(), corrupted(50)
    statistics = sm.fit(net, images(100), progress=False)
    assert statistics["norm"].site.source == ""
    robust = sm.match(net, statistics)
    with torch.no_grad():
        assert len(set(places(robust, x, "norm"))) == 2


@pytest.mark.usefixtures("everything_is_large")
def test_the_decided_strength_measures_features_before_they_are_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = small_network(), corrupted(50)
    statistics = sm.fit(net, images(100), progress=False)
    found = sm.match(net, statistics, strength="auto")(x)
    monkeypatch.setattr(matcher, "LARGE", 1 << 40)
    assert_close(sm.match(net, statistics, strength="auto")(x), found, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("everything_is_large")
def test_a_site_is_named_where_features_are_not_finite() -> None:
    net = small_network()
    statistics = sm.fit(net, images(100), progress=False, sites=lambda site: not site.is_input)
    with torch.no_grad(), pytest.raises(sm.errors.NonFiniteError, match="At site '1'"):
        sm.match(net, statistics)(torch.full((20, 3, 8, 8), torch.nan))
