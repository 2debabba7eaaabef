import torch
from torch import Tensor, nn

from shiftmatch.samplers.density import log_posterior
from shiftmatch.samplers.hmc import hmc
from shiftmatch.samplers.posterior import inner, params_of, standard_normal
from shiftmatch.samplers.preconditioning import _by_layer, _by_parameter, fisher_scales, layer_fisher
from shiftmatch.samplers.sampling import sample


def test_scales_of_logistic_regression_are_those_of_its_curvature() -> None:
    """F_kj = Σ_n p_nk (1 − p_nk) x_nj² for the weights of a softmax, in expectation over the labels."""
    generator = torch.Generator().manual_seed(0)
    model, x = nn.Linear(3, 4), torch.randn(500, 3, generator=generator)
    density = log_posterior(model, (x, torch.zeros(500, dtype=torch.long)))
    scales = fisher_scales(density, params_of(model), generator, precision=100.0)
    p = model(x).softmax(-1).detach()
    fisher = (p * (1 - p)).T @ x.square()
    torch.testing.assert_close(scales.scales["weight"], (100 + fisher).rsqrt(), rtol=0.1, atol=0)


def test_the_layerwise_map_whitens_the_curvature_and_its_transpose_is_its_transpose() -> None:
    """In logistic regression with inputs that are far from 0, T Tᵀ is about the inverse of the curvature."""
    generator = torch.Generator().manual_seed(0)
    model, x = nn.Linear(3, 2), torch.randn(400, 3, generator=generator) + 3
    density = log_posterior(model, (x, torch.zeros(400, dtype=torch.long)))
    params = {name: torch.zeros_like(value) for name, value in params_of(model).items()}
    linear = layer_fisher(density, [params, params], generator, precision=1.0, examples=400)
    one, other = standard_normal(params, generator), standard_normal(params, generator)
    torch.testing.assert_close(inner(linear.apply(one), other), inner(one, linear.transpose(other)))
    inputs = torch.cat([x, torch.ones(400, 1)], 1)
    curvature = torch.eye(4) + 0.25 * inputs.T @ inputs  # p (1 - p) is a quarter
    units = [{"weight": row[:3].expand(2, 3), "bias": row[3].expand(2)} for row in torch.eye(4)]
    columns = [torch.cat([moved["weight"][0], moved["bias"][:1]]) for moved in map(linear.apply, units)]
    t = torch.stack(columns, 1)
    whitened = torch.linalg.eigvalsh(t.T @ curvature @ t)
    assert whitened.min() > 0.5
    assert whitened.max() < 2
    assert torch.linalg.cond(curvature) > 20


def test_hmc_with_the_layerwise_map_takes_longer_steps() -> None:
    generator = torch.Generator().manual_seed(0)
    model, x = nn.Linear(30, 2), torch.randn(200, 30, generator=generator) + 3
    density = log_posterior(model, (x, (x.sum(1) > 90).long()))
    start = {name: torch.zeros_like(value) for name, value in params_of(model).items()}
    acceptance = {}
    for name, linear in (
        ("diagonal", fisher_scales(density, start, generator, precision=1.0)),
        ("layerwise", layer_fisher(density, [start], generator, precision=1.0)),
    ):
        sampler = hmc(density, step_size=0.5, trajectory=1.5, preconditioner=linear)
        trace = sample(sampler, start, draws=20, burn_in=5, generator=torch.Generator().manual_seed(1)).info["trace"]
        acceptance[name] = sum(trace["acceptance"][5:]) / 20
    assert acceptance["layerwise"] > 0.6
    assert acceptance["diagonal"] < 0.3


def test_a_parameter_that_is_one_number_has_a_scale_of_its_own() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.scale = nn.Linear(2, 3), nn.Parameter(torch.tensor(2.0))

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.scale * self.linear(x)
            return out

    density = log_posterior(Scaled(), (torch.randn(6, 2), torch.arange(6) % 3))
    params = params_of(density.model)
    moved = layer_fisher(density, [params], torch.Generator(), precision=4.0).apply(params)
    assert {name: x.shape for name, x in moved.items()} == {name: x.shape for name, x in params.items()}
    assert 0 < moved["scale"] <= 1  # 2 / √(4 + F)


def test_the_inputs_own_prior_shortens_the_steps_along_what_it_fixes() -> None:
    """Without data the map is Λ^{-1/2}: for Λ = precision + that of the inputs, the bias having the first alone."""
    model = nn.Linear(3, 2)
    density = log_posterior(model, (torch.zeros(1, 3), torch.zeros(1, dtype=torch.long)))
    params, prior = params_of(model), torch.diag(torch.tensor([3.0, 8.0, 15.0]))
    linear = layer_fisher(density, [params], torch.Generator(), precision=1.0, input_precision={"weight": prior})
    ones = {"weight": torch.eye(3)[:2], "bias": torch.zeros(2)}
    moved = linear.apply(linear.transpose(ones))["weight"]  # T Tᵀ does not depend on the order of the eigenvectors
    torch.testing.assert_close(moved, torch.diag(1 / torch.tensor([4.0, 9.0, 16.0]))[:2], rtol=1e-5, atol=1e-6)


def test_networks_with_all_kinds_of_parameters_are_taken_apart_and_put_together() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)
            self.head, self.temperature = nn.Linear(4, 2), nn.Parameter(torch.tensor(1.5))

    params = params_of(Mixed())
    layers = dict(_by_layer(params))
    assert {name: tuple(matrix.shape) for name, matrix in layers.items()} == {
        "conv.weight": (4, 27),
        "norm.weight": (4, 1),
        "norm.bias": (4, 1),
        "head.weight": (2, 5),
        "temperature": (1, 1),
    }
    back = _by_parameter(layers, params)
    assert list(back) == list(params)
    assert all(torch.equal(back[name], value) for name, value in params.items())
