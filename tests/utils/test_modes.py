from collections.abc import Callable

import pytest
import torch
from evaluated import Scaled, Tiny, tiny_suite
from torch import nn

import shiftmatch as sm
from shiftmatch.evaluation.evaluate import evaluate
from shiftmatch.samplers.density import FromFunction

NET, LAYER, SUITE = Tiny(), nn.Linear(2, 2), tiny_suite()  # their initialisation switches gradients off, too


def fit() -> object:
    return sm.fit(NET, torch.rand(8, 3, 16, 16), progress=False)


def find_sites() -> object:
    return sm.sites(NET, torch.rand(2, 3, 16, 16))


def score() -> object:
    return evaluate({"net": sm.average([NET])}, SUITE, preprocess=Scaled(), progress=False)


def draw() -> object:
    def log_density(params: dict[str, torch.Tensor]) -> torch.Tensor:
        with torch.no_grad():
            return params["bias"].sum()

    sampler = sm.samplers.sgld(FromFunction(log_density), step_size=0.1)
    return sm.sample(sampler, LAYER, draws=1, generator=torch.Generator(), progress=False)


@pytest.mark.parametrize("task", [fit, find_sites, score, draw])
def test_an_interrupt_while_gradients_are_switched_off_leaves_them_on(
    task: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def enter(self: torch.no_grad) -> None:
        torch.set_grad_enabled(False)
        raise KeyboardInterrupt

    monkeypatch.setattr(torch.no_grad, "__enter__", enter)
    try:
        with pytest.raises(KeyboardInterrupt):
            task()
        assert torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)
