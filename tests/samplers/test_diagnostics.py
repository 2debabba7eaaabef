import pytest
import torch
from torch import Tensor

from shiftmatch.errors import InputError
from shiftmatch.models import Architecture
from shiftmatch.samplers.diagnostics import effective_size, function_values, split_rhat, summarise
from shiftmatch.samplers.params import params_of
from shiftmatch.samplers.posterior import Posterior

TINY = Architecture("mlp", {"inputs": 4, "hidden": (3,), "classes": 2})


def autoregression(correlation: float, shape: tuple[int, int, int], seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(*shape, generator=generator, dtype=torch.float64)
    draws = [noise[:, 0]]
    for t in range(1, shape[1]):
        draws.append(correlation * draws[-1] + (1 - correlation**2) ** 0.5 * noise[:, t])
    return torch.stack(draws, 1)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_effective_size_of_an_autoregression_is_what_theory_says(correlation: float) -> None:
    values = autoregression(correlation, (4, 1000, 20))
    expected = 4000 * (1 - correlation) / (1 + correlation)
    assert effective_size(values).mean().item() == pytest.approx(expected, rel=0.15)


def test_rhat_by_hand() -> None:
    values = torch.randn(2, 10, generator=torch.Generator().manual_seed(0)).double()
    halves = [values[0, :5], values[0, 5:], values[1, :5], values[1, 5:]]
    within = sum(half.var() for half in halves) / 4
    between = torch.stack([half.mean() for half in halves]).var()
    torch.testing.assert_close(split_rhat(values), ((0.8 * within + between) / within).sqrt())


def test_rhat_sees_chains_apart_and_chains_that_drift() -> None:
    values = autoregression(0.0, (4, 500, 1))
    assert split_rhat(values).max() < 1.02
    assert split_rhat(values + torch.arange(4.0)[:, None, None]).max() > 1.5
    assert split_rhat(values + torch.linspace(0, 4, 500)[None, :, None]).max() > 1.3
    assert split_rhat(torch.ones(2, 10)) == 1


def test_function_values_keep_chains_apart_and_take_the_last_draws_of_longer_ones() -> None:
    long, short = (Posterior.of([params_of(TINY.build()) for _ in range(n)], architecture=TINY) for n in (6, 4))
    x = torch.randn(3, 1, 2, 2)
    values = function_values(Posterior.merge([long, short]), x)
    assert values.shape == (2, 4, 3, 2)
    torch.testing.assert_close(values[0, 0], long.models()[2](x).softmax(-1))
    torch.testing.assert_close(values[1, 3], short.models()[3](x).softmax(-1))


def test_summary_ignores_the_burn_in() -> None:
    info = {"burn_in": 1, "trace": {"acceptance": [0.0, 1.0, 0.5], "energy_error": [9.0, -0.5, 0.5]}}
    chain = Posterior.of([params_of(TINY.build()) for _ in range(4)], architecture=TINY, info=info)
    summary = summarise(Posterior.merge([chain, chain]), torch.randn(3, 1, 2, 2))
    assert summary["acceptance"] == 0.75
    assert summary["energy_error"] == 0.5
    assert summary["chains"] == [4, 4]


def test_too_few_draws_are_refused() -> None:
    with pytest.raises(InputError, match="at least 4"):
        split_rhat(torch.zeros(2, 3))
