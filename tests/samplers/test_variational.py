import pytest
import torch
from known_answers import GAUSSIAN, LogisticRegression

from shiftmatch.errors import InputError
from shiftmatch.samplers.density import FromFunction
from shiftmatch.samplers.priors import gaussian
from shiftmatch.samplers.sampling import sample
from shiftmatch.samplers.variational import mean_field

STEPS = 1500


def test_mean_field_finds_the_mean_and_the_conditional_variances_of_a_gaussian() -> None:
    """The best independent Gaussian has the true mean and the variances 1 / diag(Σ⁻¹), which are too small."""
    sampler = mean_field(GAUSSIAN.log_density, step_size=0.03, steps=STEPS, initial_std=0.1)
    generator = torch.Generator().manual_seed(0)
    draws = sample(sampler, GAUSSIAN.start, draws=500, burn_in=STEPS, generator=generator).params["x"].flatten(0, 1)
    best = 1 / torch.linalg.inv(GAUSSIAN.covariance).diagonal()
    torch.testing.assert_close(draws.mean(0), GAUSSIAN.mean, atol=0.03, rtol=0)
    torch.testing.assert_close(draws.var(0), best, rtol=0.1, atol=0)


def test_after_the_fit_the_distribution_stays_as_it_is() -> None:
    sampler = mean_field(GAUSSIAN.log_density, step_size=0.1, steps=1)
    generator = torch.Generator().manual_seed(0)
    fitted = sampler.step(sampler.init(GAUSSIAN.start), generator)
    later = sampler.step(fitted, generator)
    assert all(torch.equal(later.variational[name], value) for name, value in fitted.variational.items())
    assert not torch.equal(later.params["x"], fitted.params["x"])


def test_the_prior_alone_comes_out_with_its_width() -> None:
    """A deviation of 0.447 for a precision of 5, from one of 0.01, within 5 %."""
    sampler = mean_field(FromFunction(gaussian(5.0)), step_size=0.03, steps=400)
    start = {"x": torch.ones(2000)}
    draws = sample(sampler, start, draws=10, burn_in=400, generator=torch.Generator().manual_seed(0)).params["x"]
    assert draws.std().item() == pytest.approx(5**-0.5, rel=0.05)
    assert draws.mean().item() == pytest.approx(0.0, abs=0.02)


def test_the_posterior_of_a_logistic_regression_is_fitted_from_minibatches() -> None:
    """Mean within a tenth of a deviation; deviations those of each weight given the other, within 12 %."""
    problem = LogisticRegression()
    sampler = mean_field(problem.density(batch_size=20), step_size=0.03, steps=600)
    draws = sample(sampler, problem.start, draws=20, burn_in=600, generator=torch.Generator().manual_seed(0))
    mean, covariance = problem.table()
    flat = draws.params["weight"].flatten(0, 1)
    assert ((flat.mean(0) - mean).abs() < 0.1 * covariance.diagonal().sqrt()).all(), (flat.mean(0), mean)
    given_the_other = torch.linalg.inv(covariance).diagonal().rsqrt()
    torch.testing.assert_close(flat.std(0), given_the_other, rtol=0.12, atol=0)


def test_draws_are_not_kept_before_the_fit_is_done() -> None:
    with pytest.raises(InputError, match="burn_in=7 or more"):
        sample(
            mean_field(GAUSSIAN.log_density, step_size=0.1, steps=7),
            GAUSSIAN.start,
            draws=1,
            generator=torch.Generator(),
        )
