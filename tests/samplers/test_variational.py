import torch
from known_answers import GAUSSIAN

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
