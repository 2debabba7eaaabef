"""Large features are matched in the memory of what the BatchNorm takes, where nobody else looks at it."""

import pytest
import torch
from made_matched import corrupted, images, small_network
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.testing import assert_close

import shiftmatch as sm
from shiftmatch.matching import overwriting


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overwriting, "LARGE", 0)


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
        monkeypatch.setattr(overwriting, "LARGE", 0)
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
    monkeypatch.setattr(overwriting, "LARGE", 1 << 40)
    assert_close(sm.match(net, statistics, strength="auto")(x), found, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("everything_is_large")
def test_a_site_is_named_where_features_are_not_finite() -> None:
    net = small_network()
    statistics = sm.fit(net, images(100), progress=False, sites=lambda site: not site.is_input)
    with torch.no_grad(), pytest.raises(sm.errors.NonFiniteError, match="At site '1'"):
        sm.match(net, statistics)(torch.full((20, 3, 8, 8), torch.nan))
