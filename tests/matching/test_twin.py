"""What is built around a twin: it leaves the user's network alone, and looks like it."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from made_matched import corrupted, images, matched, small_network
from torch import Tensor, nn

import shiftmatch as sm
from shiftmatch.errors import InputError
from shiftmatch.matching.twin import twin_of

AROUND: dict[str, Callable[[], nn.Module]] = {
    "matched": matched,
    "frozen": lambda: sm.freeze(matched(), corrupted(50)),
    "stream": lambda: sm.stream(small_network(), matched().statistics),
    "step": lambda: sm.StreamStep(sm.stream(small_network(), matched().statistics)),
    "batchnorm": lambda: sm.adapt_batchnorm(small_network()),
}


@pytest.mark.parametrize("build", AROUND.values(), ids=AROUND)
def test_it_stays_in_evaluation_mode_and_has_the_attributes_of_the_network(build: Callable[[], nn.Module]) -> None:
    model = build()
    model.get_submodule("network").__dict__["config"] = {"classes": 10}
    assert model.config == {"classes": 10}
    assert not model.train().training
    with pytest.raises(AttributeError, match="nothing_like_it"):
        model.nothing_like_it  # noqa: B018


@pytest.mark.parametrize("around", [sm.MatchedModel, sm.freeze, sm.stream, sm.adapt_batchnorm])
def test_converting_it_leaves_the_network_alone(around: Callable[..., nn.Module]) -> None:
    net = small_network()
    statistics = sm.fit(net, images(100), progress=False)
    arguments = [net] if around is sm.adapt_batchnorm else [net, statistics]
    model = around(*([sm.match(net, statistics), corrupted(50)] if around is sm.freeze else arguments))
    before = net(corrupted(2))
    model.to(torch.float64)
    assert {parameter.dtype for parameter in net.parameters()} == {torch.float32}
    assert torch.equal(net(corrupted(2)), before)
    assert {parameter.dtype for parameter in model.get_submodule("network").parameters()} == {torch.float64}


class Holder(nn.Module):
    """Keeps its parts in other ways than as attributes, too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4, bias=False), nn.Linear(4, 2)
        self.way, self.named, self.apart = [self.first, (self.last,)], {"last": self.last}, {self.first}
        self.bound = self.last.forward
        self.later = partial(self.through, self.first, head=self.last)

    def through(self, first: nn.Module, x: Tensor, *, head: nn.Module) -> Tensor:
        return torch.as_tensor(head(first(x)))

    def forward(self, x: Tensor) -> Tensor:
        return self.later(x) + self.bound(self.way[0](x))  # type: ignore[operator]


def test_whatever_holds_its_parts_has_those_of_the_twin() -> None:
    net = Holder()
    twin, x = twin_of(net), torch.randn(3, 4)
    assert torch.equal(twin(x), net(x))
    held = [twin.way[0], twin.way[1][0], twin.named["last"], *twin.apart, twin.bound.__self__]  # type: ignore[index, misc, union-attr]
    held += [twin.later.args[0], twin.later.keywords["head"], twin.later.func.__self__]  # type: ignore[index, union-attr]
    first, last = twin.first, twin.last
    expected = [first, last, last, first, last, first, last, twin]
    assert [id(part) for part in held] == [id(part) for part in expected]
    plain = net(x)
    twin.get_submodule("last").register_forward_hook(lambda module, args, output: output + 100)
    assert torch.equal(net(x), plain)
    assert torch.equal(twin.later(x), plain - net.bound(net.first(x)) + 100)  # type: ignore[operator]


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_what_hides_its_layers_has_no_twin() -> None:
    with pytest.raises(InputError, match=r"Pass the nn\.Module that it was made from"):
        twin_of(torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2)))


@pytest.mark.parametrize("around", [sm.match, sm.stream])
def test_what_decides_by_itself_stays_in_evaluation_mode_too(around: Callable[..., nn.Module]) -> None:
    net = small_network()
    statistics = sm.fit(net, images(100), progress=False)
    model, expected = (around(net, statistics, strength="auto") for _ in range(2))
    assert model.train() is model
    assert torch.equal(model(corrupted(20)), expected(corrupted(20)))
    layers = [part for part in model.modules() if isinstance(part, nn.BatchNorm2d | nn.Conv2d)]
    assert layers
    assert not any(layer.training for layer in layers)
    assert torch.equal(net.get_buffer("1.running_mean"), small_network().get_buffer("1.running_mean"))
