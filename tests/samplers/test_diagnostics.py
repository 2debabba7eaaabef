import importlib
import math
from typing import Any

import pytest
import torch
from known_answers import GAUSSIAN
from torch import Tensor, nn

from shiftmatch.errors import InputError
from shiftmatch.models import Architecture
from shiftmatch.samplers.density import FromFunction
from shiftmatch.samplers.diagnostics import (
    convergence_summary,
    distinct_draws,
    effective_size,
    function_values,
    split_rhat,
    summarise,
    virial,
)
from shiftmatch.samplers.hmc import hmc
from shiftmatch.samplers.posterior import Posterior, params_of
from shiftmatch.samplers.sampling import sample_chains

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


@pytest.mark.parametrize("shape", [(2, 4), (2, 7), (4, 10), (4, 50), (3, 101)])
@pytest.mark.parametrize("correlation", [-0.9, 0.0, 0.9])
def test_sizes_and_rhat_are_those_of_arviz(shape: tuple[int, int], correlation: float) -> None:
    array_stats: Any = importlib.import_module("arviz_stats.base").array_stats
    values = autoregression(correlation, (*shape, 3)).exp()  # heavy tails, for the ranks
    for index in range(3):
        array = values[..., index].numpy()
        axes = {"chain_axis": 0, "draw_axis": 1}
        assert effective_size(values)[index].item() == pytest.approx(array_stats.ess(array, method="bulk", **axes))
        plain = effective_size(values, ranks=False)[index].item()
        assert plain == pytest.approx(array_stats.ess(array, method="mean", **axes))
        assert split_rhat(values)[index].item() == pytest.approx(array_stats.rhat(array, method="rank", **axes))


def test_antithetic_and_short_chains_have_a_positive_size() -> None:
    antithetic = torch.tensor([1.0, -1.0]).repeat(50)[None] + 0.01 * autoregression(0.0, (2, 100, 1))[..., 0]
    for values in (antithetic, antithetic[:, :4], autoregression(0.99, (1, 5, 1))):
        assert (effective_size(values) > 0).all()


def test_rhat_sees_chains_apart_and_chains_that_drift() -> None:
    values = autoregression(0.0, (4, 500, 1))
    assert split_rhat(values).max() < 1.02
    assert split_rhat(values + torch.arange(4.0)[:, None, None]).max() > 1.5
    assert split_rhat(values + torch.linspace(0, 4, 500)[None, :, None]).max() > 1.3
    assert split_rhat(values * torch.tensor([1.0, 1.0, 1.0, 9.0])[:, None, None]).max() > 1.05
    assert split_rhat(torch.ones(2, 10)) == 1


def test_chains_that_are_stuck_at_different_values_never_agree() -> None:
    stuck = torch.stack([torch.full((10,), 1.0), torch.full((10,), 2.0)])
    assert split_rhat(stuck) == math.inf
    assert effective_size(stuck) <= 5.5


@pytest.mark.parametrize("chains", [1, 2])
def test_a_summary_says_that_every_proposal_was_rejected(chains: int) -> None:
    far_too_long = hmc(GAUSSIAN.log_density, step_size=50.0, trajectory=500.0)
    posterior = sample_chains(far_too_long, [GAUSSIAN.start] * chains, draws=6, seed=0)
    assert distinct_draws(posterior) == chains
    network = nn.Linear(4, 2, bias=False)
    stuck = Posterior.merge(
        [Posterior.of([params_of(network)] * 6, info={"trace": {"acceptance": [0.0] * 6}})] * chains
    )
    said = convergence_summary(stuck, torch.randn(3, 4), network)
    assert "every proposal was rejected" in said
    assert "R-hat" not in said


def test_the_virial_tells_whether_a_chain_has_arrived() -> None:
    """Draws of half the variance have half the virial."""
    normal = FromFunction(lambda params: -0.5 * params["x"].square().sum())
    noise = autoregression(0.0, (2, 40, 200), seed=3)
    right, narrow = (
        Posterior.merge([Posterior.of([{"x": scale * row} for row in chain]) for chain in noise])
        for scale in (1.0, 0.5**0.5)
    )
    found = virial(right, normal)
    assert found.dimension == 200
    assert abs(found.standard_errors) < 3
    assert found.stderr == pytest.approx((2 * 200 / 80) ** 0.5, rel=0.5)
    assert virial(narrow, normal).mean == pytest.approx(100, rel=0.05)
    assert virial(narrow, normal).standard_errors < -10


def test_a_summary_of_a_chain_on_its_way_says_that_it_has_not_arrived() -> None:
    info = {"burn_in": 0, "trace": {"virial": [10.0, 10.1, 9.9, 10.0, 10.1, 9.9]}}
    chain = Posterior.of([params_of(TINY.build()) for _ in range(6)], architecture=TINY, info=info)
    assert "has not arrived" in convergence_summary(chain, torch.randn(3, 1, 2, 2))


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
    assert summary["distinct_draws"] == 8


def test_draws_with_buffers_are_counted_too() -> None:
    steps = [{"w": torch.tensor([w]), "batches": torch.tensor(3)} for w in (1.0, 1.0, 2.0)]
    assert distinct_draws(Posterior.of(steps)) == 2


def test_too_few_draws_are_refused() -> None:
    with pytest.raises(InputError, match="at least 4"):
        split_rhat(torch.zeros(2, 3))


def test_a_chain_that_has_diverged_is_not_called_converged() -> None:
    values = autoregression(0.0, (2, 10, 3))
    values[1, 4, 2] = math.nan
    for found in (split_rhat(values), effective_size(values)):
        assert found.isnan().tolist() == [False, False, True]
    draws = [{"weight": torch.full((2, 4), math.nan)} for _ in range(6)]
    said = convergence_summary(Posterior.of(draws), torch.randn(3, 4), nn.Linear(4, 2, bias=False))
    assert "has diverged" in said
    assert "R-hat" not in said
