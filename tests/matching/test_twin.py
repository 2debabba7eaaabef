"""What is built around a twin: it leaves the user's network alone, and looks like it."""

from collections.abc import Callable

import pytest
import torch
from made_matched import corrupted, images, matched, small_network
from torch import nn

import shiftmatch as sm

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
