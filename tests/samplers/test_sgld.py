import math

import pytest
import torch
from known_answers import GAUSSIAN, LogisticRegression, assert_draws_from_gaussian
from torch import nn

from shiftmatch.models.layers import initialise
from shiftmatch.samplers.density import FromFunction, LogDensity, log_posterior
from shiftmatch.samplers.posterior import Params, Posterior
from shiftmatch.samplers.priors import gaussian
from shiftmatch.samplers.sampling import Sampler, sample
from shiftmatch.samplers.sgld import SGHMCState, cyclical, deep_ensemble, sgd, sghmc, sgld

# Steps so small that the discretisation moves the covariance by less than the Monte-Carlo error.
SAMPLERS = {
    "sgld": (sgld(GAUSSIAN.log_density, step_size=1e-2), 10),
    "sghmc": (sghmc(GAUSSIAN.log_density, step_size=1e-3, decay=0.9), 10),
    "cyclical": (sgld(GAUSSIAN.log_density, step_size=cyclical(2e-2, cycle=10)), 10),
}


def run(sampler: Sampler[SGHMCState], thin: int) -> Posterior:
    generator = torch.Generator().manual_seed(0)
    return sample(sampler, GAUSSIAN.start, draws=100, burn_in=20, thin=thin, generator=generator)


@pytest.mark.parametrize("name", SAMPLERS)
def test_draws_from_a_gaussian_have_its_mean_and_covariance(name: str) -> None:
    assert_draws_from_gaussian(run(*SAMPLERS[name]))


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_with_another_noise_scale_the_same_test_fails(factor: float) -> None:
    """A density that is `factor` times too steep is the same as noise that is 1/√factor too weak."""

    def steep(params: Params) -> torch.Tensor:
        return factor * GAUSSIAN.log_density.function(params)

    with pytest.raises(AssertionError):
        assert_draws_from_gaussian(run(sgld(FromFunction(steep), step_size=1e-2 / factor), 10))


def test_a_long_step_has_the_variance_that_theory_gives_it() -> None:
    """θ ← (1 − ε) θ + √(2ε) ξ is an autoregression with variance 1 / (1 − ε/2)."""
    normal = FromFunction(lambda params: -0.5 * params["x"].square().sum())
    generator = torch.Generator().manual_seed(1)
    draws = sample(sgld(normal, step_size=0.5), {"x": torch.zeros(2000)}, draws=50, burn_in=20, generator=generator)
    assert draws.params["x"].var().item() == pytest.approx(1 / 0.75, rel=0.03)


def test_sghmc_without_memory_is_sgld() -> None:
    one, other = (
        sampler.step(sampler.init(GAUSSIAN.start), torch.Generator().manual_seed(3))
        for sampler in (
            sgld(GAUSSIAN.log_density, step_size=0.01),
            sghmc(GAUSSIAN.log_density, step_size=0.01, decay=0.0),
        )
    )
    assert torch.equal(one.params["x"], other.params["x"])
    _, gradient = GAUSSIAN.log_density.value_and_grad(GAUSSIAN.start, torch.Generator())
    noise = torch.randn(GAUSSIAN.start["x"].shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    by_hand = GAUSSIAN.start["x"] + 0.01 * gradient["x"] + math.sqrt(2 * 0.01) * noise
    torch.testing.assert_close(one.params["x"], by_hand)


# Steps short enough for an error of a few per cent, and long enough to get from the start to the posterior.
KINDS = ("sgld", "sghmc", "cyclical")


def built(kind: str, density: LogDensity, size: float, *, cycle: int = 40) -> Sampler[SGHMCState]:
    match kind:
        case "sgld":
            return sgld(density, step_size=size)
        case "sghmc":
            return sghmc(density, step_size=size / 10, decay=0.9)
        case _:
            return sghmc(density, step_size=cyclical(size / 5, cycle=cycle), decay=0.9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_prior_alone_comes_out_with_its_width(kind: str) -> None:
    """A deviation of 0.447 for a precision of 5, from a start in the middle, within 5 %."""
    sampler = built(kind, FromFunction(gaussian(5.0)), 0.01)
    start = {"x": torch.zeros(2000)}
    draws = sample(sampler, start, draws=10, burn_in=5, thin=40, generator=torch.Generator().manual_seed(0))
    assert draws.params["x"].std().item() == pytest.approx(5**-0.5, rel=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_the_posterior_of_a_logistic_regression_comes_out_of_minibatches(kind: str) -> None:
    """Mean within a tenth of a deviation, deviations within 12 %."""
    problem = LogisticRegression()
    sampler = built(kind, problem.density(batch_size=20), 0.01)
    draws = sample(sampler, problem.start, draws=20, burn_in=5, thin=40, generator=torch.Generator().manual_seed(0))
    mean, covariance = problem.table()
    deviation = covariance.diagonal().sqrt()
    flat = draws.params["weight"].flatten(0, 1)
    assert ((flat.mean(0) - mean).abs() < 0.1 * deviation).all(), (flat.mean(0), mean)
    torch.testing.assert_close(flat.std(0), deviation, rtol=0.12, atol=0)
    correlation = covariance[0, 1] / deviation.prod()
    assert torch.corrcoef(flat.T)[0, 1].item() == pytest.approx(correlation.item(), abs=0.1)


def test_sgd_takes_the_steps_of_torch_with_a_cosine_schedule() -> None:
    bowl = FromFunction(lambda params: -params["x"].square().sum())
    sampler = sgd(bowl, step_size=0.1, steps=10, momentum=0.9)
    state = sampler.init({"x": torch.tensor([1.0, -2.0])})
    x = nn.Parameter(torch.tensor([1.0, -2.0]))
    optimiser = torch.optim.SGD([x], lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=10)
    for _ in range(10):
        state = sampler.step(state, torch.Generator())
        optimiser.zero_grad()
        x.square().sum().backward()
        optimiser.step()
        schedule.step()
    torch.testing.assert_close(state.params["x"], x.detach())


def test_members_learn_and_differ_and_the_seed_decides() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 2, generator=generator)
    labels = (x[:, 0] * x[:, 1] > 0).long()
    network = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    density = log_posterior(network, (x, labels), prior_scale=3.0, batch_size=20)

    def train(seed: int) -> list[torch.Tensor]:
        ensemble = deep_ensemble(
            density, lambda g: initialise(network, g), members=2, step_size=1e-3, steps=300, seed=seed
        )
        return [model(x).detach() for model in ensemble.models(network)]

    one, other = train(0)
    for logits in (one, other):
        assert (logits.argmax(-1) == labels).float().mean() > 0.9
    assert not torch.equal(one, other)
    assert torch.equal(train(0)[0], one)
