import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from shiftmatch.errors import UnhashableError
from shiftmatch.evaluation.methods import METHODS, predictor
from shiftmatch.matching.average import average
from shiftmatch.matching.batchnorm import adapt_batchnorm
from shiftmatch.matching.match import MatchedModel, fit, match
from shiftmatch.samplers.posterior import Posterior
from shiftmatch.utils.hashing import content_hash

SCALE = np.array([2.0])


def scaled(x: float) -> object:
    return x * SCALE


@dataclass(frozen=True)
class Setting:
    number: float


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)).eval()


def batches(seed: int = 0) -> list[Tensor]:
    return [torch.randn(120, 3, 8, 8, generator=torch.Generator().manual_seed(seed))]


def enclosing(value: float) -> Callable[[float], float]:
    return lambda x: x + value


def matched(net: int = 0, *, prior: int = 0, seed: int = 0) -> MatchedModel:
    return match(network(net), fit(network(net), batches(seed), progress=False), prior_images=prior)


class Scale:
    """A predictor as users write them: a class with attributes, public or not."""

    def __init__(self, factor: float, *, hidden: float = 0.0) -> None:
        self.factor, self._hidden = factor, hidden

    def __call__(self, x: Tensor) -> Tensor:
        return x * self.factor + self._hidden


class Slotted:
    __slots__ = ("factor",)

    def __init__(self, factor: float) -> None:
        self.factor = factor


class Shifted(nn.Module):
    """Has a number, and a buffer that no state dict has."""

    def __init__(self, number: float, buffer: float = 0.0) -> None:
        super().__init__()
        self._number = number
        self.register_buffer("hidden", torch.tensor(buffer), persistent=False)


def hooked(number: int) -> nn.Module:
    net = nn.Linear(2, 2, bias=False)
    nn.init.ones_(net.weight)
    net.register_forward_hook(lambda module, args, output: output + number)
    return net


def class_of(number: int) -> type:
    class Same:
        def __call__(self, x: float) -> float:
            return x + 1

    class Other:
        def __call__(self, x: float) -> float:
            return x + 2

    Other.__name__, Other.__qualname__ = Same.__name__, Same.__qualname__
    return Other if number else Same


PAIRS: dict[str, Callable[[int], object]] = {
    "numbers": lambda i: i,
    "strings": str,
    "types": lambda i: (int, float)[i],
    "tensors": lambda i: torch.tensor([1.0, i]),
    "shapes": lambda i: torch.zeros(2, 3) if i else torch.zeros(3, 2),
    "keys": lambda i: {i: "value"},
    "values": lambda i: {"key": [i]},
    "order": lambda i: [0, 1] if i else [1, 0],
    "nesting": lambda i: [[1], 2] if i else [1, [2]],
    "dataclasses": Setting,
    "enclosed values": enclosing,
    "code": lambda i: (lambda x: x + 1) if i else (lambda x: x + 2),
    "partial arguments": lambda i: partial(max, i),
    "attributes": Scale,
    "hidden attributes": lambda i: Scale(1, hidden=i),
    "slots": Slotted,
    "methods of a class": lambda i: class_of(i)(),
    "classes": class_of,
    "sets": lambda i: {"a", "b", i},
    "arrays": lambda i: np.array(["a", "b"])[:: 1 - 2 * i],
    "devices": lambda i: torch.device(("cpu", "cuda")[i]),
    "attributes of a module": Shifted,
    "buffers of a module": lambda i: Shifted(1, i),
    "hooks of a module": hooked,
    "modes of a module": lambda i: network().train(bool(i)),
    "weights": network,
    "matched networks": matched,
    "priors": lambda i: matched(prior=i),
    "priors of batchnorm": lambda i: adapt_batchnorm(network(), prior_images=i),
    "members": lambda i: average([network(0), network(i)]),
    "draws": lambda i: average(Posterior.of([network(i).state_dict()]).models(network())),
    "methods": lambda i: predictor(METHODS[("ShiftMatch: spectrum", "CORAL")[i]], network(), batches()),
    "what is learned": lambda i: predictor(METHODS[("Tent", "batchnorm-running")[i]], network(), batches()),
    "training images": lambda i: predictor(METHODS["ShiftMatch: spectrum"], network(), batches(i)),
}


@pytest.mark.parametrize("make", PAIRS.values(), ids=PAIRS)
def test_it_is_the_same_for_the_same_and_different_for_others(make: Callable[[int], object]) -> None:
    assert content_hash(make(0)) == content_hash(make(0))
    assert content_hash(make(0)) != content_hash(make(1))


def test_a_value_may_hold_itself() -> None:
    endless: list[object] = [1]
    endless.append(endless)
    assert content_hash(endless) == content_hash(endless) != content_hash([1])


def test_data_of_a_functions_module_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = content_hash(scaled)
    assert content_hash(scaled) == before
    monkeypatch.setitem(globals(), "SCALE", np.array([3.0]))
    assert content_hash(scaled) != before


def test_where_something_lies_does_not_matter() -> None:
    assert content_hash(Path("here")) == content_hash(Path("there"))


def test_networks_matched_to_other_data_differ() -> None:
    fitted, changed = matched(), matched()
    changed.statistics["input"].parts[0][0].mean.mul_(1.5)
    assert content_hash(fitted) == content_hash(matched())
    assert content_hash(fitted) != content_hash(changed)


def test_what_was_seen_does_not_matter() -> None:
    predict = predictor(METHODS["Tent"], network(), batches())
    before = content_hash(predict)
    predict(batches()[0])
    assert content_hash(predict) == before


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_network_is_the_network() -> None:
    net = network()
    assert content_hash(torch.compile(net)) == content_hash(net)


@pytest.mark.parametrize("made", [threading.Lock, lambda: (x for x in [1]), lambda: torch.eye(2).to_sparse()])
def test_what_has_no_content_is_refused_rather_than_taken_for_another(made: Callable[[], object]) -> None:
    with pytest.raises(UnhashableError, match=r"content of .* cannot be"):
        content_hash({"inside": [made()]})


def test_it_is_the_same_in_another_process() -> None:
    """Sets have another order there, also those that the compiler makes of `x in {...}`."""
    code = "import test_hashing as t; print(t.content_hash([t.member, {'a', 'b', 'c'}, t.Scale(2), t.network()]))"
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def member(word: str) -> bool:
    return word in {"noise", "blur", "weather", "digital"}


def test_a_method_is_told_by_its_object_and_its_code() -> None:
    class Predictor(Scale):
        def predict(self, x: Tensor) -> Tensor:
            return x * self.factor

        def other(self, x: Tensor) -> Tensor:
            return x + self.factor

    hashes = [content_hash(made) for made in (Predictor(2.0).predict, Predictor(3.0).predict, Predictor(2.0).other)]
    assert len(set(hashes)) == 3
    assert content_hash(Predictor(2.0).predict) == hashes[0]


def test_modules_are_told_by_their_names() -> None:
    assert content_hash(os) == content_hash(os)
    assert content_hash(os) != content_hash(sys)
