from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

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
    return match(network(net), fit(network(net), batches(seed), progress=False), prior=prior)


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
    "weights": network,
    "matched networks": matched,
    "priors": lambda i: matched(prior=i),
    "priors of batchnorm": lambda i: adapt_batchnorm(network(), prior=i),
    "members": lambda i: average([network(0), network(i)]),
    "draws": lambda i: average(Posterior.of([network(i).state_dict()]).models(network())),
    "methods": lambda i: predictor(METHODS[("ShiftMatch", "CORAL")[i]], network(), batches()),
    "what is learned": lambda i: predictor(METHODS[("Tent", "batchnorm-running")[i]], network(), batches()),
    "training images": lambda i: predictor(METHODS["ShiftMatch"], network(), batches(i)),
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
