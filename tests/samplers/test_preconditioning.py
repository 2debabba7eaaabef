import torch
from torch import nn

from shiftmatch.samplers.density import log_posterior
from shiftmatch.samplers.params import params_of
from shiftmatch.samplers.preconditioning import fisher_scales


def test_scales_of_logistic_regression_are_those_of_its_curvature() -> None:
    """F_kj = Σ_n p_nk (1 − p_nk) x_nj² for the weights of a softmax, in expectation over the labels."""
    generator = torch.Generator().manual_seed(0)
    model, x = nn.Linear(3, 4), torch.randn(500, 3, generator=generator)
    density = log_posterior(model, (x, torch.zeros(500, dtype=torch.long)))
    scales = fisher_scales(density, params_of(model), generator, precision=100.0)
    p = model(x).softmax(-1).detach()
    fisher = (p * (1 - p)).T @ x.square()
    torch.testing.assert_close(scales["weight"], (100 + fisher).rsqrt(), rtol=0.1, atol=0)
