"""Large batches go through the network in pieces: it must not be able to tell, and nobody else either."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from networks import BranchingNet, FusedNet, GroupNormNet, InPlaceNet, SharedNet
from randomness import maps
from torch import Tensor, nn
from torch.testing import assert_close

import shiftmatch as sm
from shiftmatch.core.covariance import STRUCTURES
from shiftmatch.errors import NonFiniteError
from shiftmatch.matching import match as matching
from shiftmatch.matching.match import MatchedModel
from shiftmatch.matching.splitting import Call, IndivisibleError, joined

IMAGES = 130


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.norm, self.head = nn.BatchNorm2d(4), nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        first = self.first(x).relu()
        second = self.between(first, self.norm(self.second(first)).relu())
        return self.head((first + second).mean((2, 3)))  # type: ignore[no-any-return]

    def between(self, first: Tensor, second: Tensor) -> Tensor:
        return second


class MixesImages(Block):
    def between(self, first: Tensor, second: Tensor) -> Tensor:
        return second - second.mean(0)


class Decides(Block):
    def between(self, first: Tensor, second: Tensor) -> Tensor:
        return second if second.mean() > 1e9 else second + 1


class Keeps(Block):
    def between(self, first: Tensor, second: Tensor) -> Tensor:
        self.kept = second
        return second


class PassesAside(Block):
    """Keeps something only from one layer to the next, which two passes side by side would take for their own."""

    def forward(self, x: Tensor) -> Tensor:
        self.aside = [self.first(x).relu()]
        y = self.second(self.aside[0]).relu() + self.aside.pop()
        del self.aside
        return self.head(y.mean((2, 3)))  # type: ignore[no-any-return]


def robust(network: nn.Module, **how: Any) -> tuple[MatchedModel, Tensor]:
    torch.manual_seed(0)
    network = network.double().eval()
    statistics = sm.fit(network, maps(200, 3, 8, 8), progress=False, **how)
    return sm.match(network, statistics, prior=10), maps(IMAGES, 3, 8, 8, seed=1, scale=2.0, shift=1.0)


def both_ways(model: MatchedModel, x: Tensor, monkeypatch: pytest.MonkeyPatch) -> tuple[Tensor, Tensor]:
    whole = model(x)
    monkeypatch.setattr(matching, "TOGETHER", 40)
    return whole, model(x)


@pytest.mark.parametrize("build", [Block, GroupNormNet, SharedNet, InPlaceNet, FusedNet])
def test_pieces_give_what_the_whole_batch_gives(
    build: Callable[[], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, pieces = both_ways(*robust(build()), monkeypatch)
    assert_close(pieces, whole, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", STRUCTURES)
def test_every_structure_can_be_measured_in_pieces(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = robust(Block(), covariance=STRUCTURES[name])
    whole, pieces = both_ways(model, x, monkeypatch)
    assert list(model._divisible.values()) == [True]
    assert_close(pieces, whole, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("build", [MixesImages, Decides, Keeps, PassesAside, BranchingNet])
def test_networks_that_could_tell_are_not_split(
    build: Callable[[], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x = robust(build())
    whole, pieces = both_ways(model, x, monkeypatch)
    assert not any(model._divisible.values())
    assert torch.equal(whole, pieces)


def test_hooks_of_others_see_whole_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = robust(Block())
    seen: list[int] = []
    model.model.get_submodule("first").register_forward_hook(lambda module, args, output: seen.append(len(output)))
    both_ways(model, x, monkeypatch)
    assert seen == [IMAGES, IMAGES]


def test_gradients_take_the_whole_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = robust(Block())
    monkeypatch.setattr(matching, "TOGETHER", 40)
    with torch.enable_grad():
        model(x.requires_grad_()).sum().backward()
    assert x.grad is not None
    assert not model._divisible


def test_a_bad_image_in_one_piece_is_named_with_its_site(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = robust(Block())
    monkeypatch.setattr(matching, "TOGETHER", 40)
    model(x)
    x[100] = torch.nan
    with pytest.raises(NonFiniteError, match="At site 'input'"):
        model(x)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.model.modules())


def test_arguments_and_outputs_of_any_kind() -> None:
    call = Call((torch.arange(5.0), 2), {"scale": torch.tensor(3.0), "more": {"x": torch.arange(5.0)}}, 5)
    first, second = call.split(3)
    assert (first.images, second.images) == (2, 3)
    assert second.args[0].tolist() == [2, 3, 4]
    assert second.kwargs["scale"] == 3
    assert joined([{"a": torch.ones(2), "b": None}, {"a": torch.zeros(3), "b": None}], [2, 3])["a"].tolist() == [
        *[1, 1, 0, 0, 0]
    ]
    with pytest.raises(IndivisibleError):
        joined([torch.tensor(1.0), torch.tensor(2.0)], [2, 3])
    with pytest.raises(IndivisibleError):
        joined([torch.ones(2), (torch.ones(3),)], [2, 3])
