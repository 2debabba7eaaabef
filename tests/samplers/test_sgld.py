import math

import pytest
import torch
from known_answers import GAUSSIAN, assert_draws_from_gaussian

from shiftmatch.samplers.interface import FromFunction, Sampler
from shiftmatch.samplers.params import Params
from shiftmatch.samplers.posterior import Posterior
from shiftmatch.samplers.sampling import sample
from shiftmatch.samplers.sgld import SGHMCState, cyclical, sghmc, sgld

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
