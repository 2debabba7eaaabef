"""Mean-field variational inference: fit a Gaussian with independent parameters, then draw from it."""

import math
from typing import NamedTuple

import torch
from torch.nn import functional

from shiftmatch.samplers.density import LogDensity
from shiftmatch.samplers.posterior import Params, Scalar, standard_normal
from shiftmatch.samplers.sampling import Sampler

ADAM_DECAYS = (0.9, 0.999)
ADAM_EPSILON = 1e-8


class MeanFieldState(NamedTuple):
    """A draw from q = N(mean, softplus(rho)²), q itself, and Adam's running moments of the gradient."""

    params: Params
    variational: Params
    first: Params
    second: Params
    log_density: Scalar
    iteration: Scalar


def mean_field(
    log_density: LogDensity, *, step_size: float, steps: int, initial_std: float = 0.01
) -> Sampler[MeanFieldState]:
    """Maximise E_q log p(θ) + H(q) with Adam for `steps` steps, the step size falling to zero as a cosine.

    One draw θ = mean + std ξ per step gives the gradients: ∇_mean = ∇log p(θ), ∇_std = ∇log p(θ) ξ + 1/std.
    From then on, steps only draw.

    Args:
        log_density: the density to draw from, such as `log_posterior` returns.
        step_size: of Adam, at first.
        steps: of the fit; run it with `burn_in=steps`.
        initial_std: the standard deviation of every parameter at first.

    >>> from shiftmatch.samplers import FromFunction, sample
    >>> normal = FromFunction(lambda params: -params["x"].square().sum() / 2)
    >>> sampler, seeded = mean_field(normal, step_size=0.1, steps=20), torch.Generator().manual_seed(0)
    >>> len(sample(sampler, {"x": torch.zeros(2)}, draws=5, burn_in=20, generator=seeded, progress=False))
    5
    """

    def init(params: Params) -> MeanFieldState:
        rho = math.log(math.expm1(initial_std))
        variational = {f"mean.{name}": value for name, value in params.items()}
        variational |= {f"rho.{name}": torch.full_like(value, rho) for name, value in params.items()}
        zeros = {name: torch.zeros_like(value) for name, value in variational.items()}
        nothing = torch.zeros((), dtype=torch.float64)
        return MeanFieldState(params, variational, zeros, zeros, nothing, nothing)

    def step(state: MeanFieldState, generator: torch.Generator) -> MeanFieldState:
        noise = standard_normal(state.params, generator)
        mean, rho = ({name: state.variational[f"{part}.{name}"] for name in noise} for part in ("mean", "rho"))
        std = {name: functional.softplus(value) for name, value in rho.items()}
        params = {name: mean[name] + std[name] * noise[name] for name in noise}
        drawn = state._replace(params=params, iteration=state.iteration + 1)
        if state.iteration >= steps:
            return drawn
        value, gradient = log_density.value_and_grad(params, generator)
        ascent = {f"mean.{name}": gradient[name] for name in noise}
        ascent |= {f"rho.{n}": (gradient[n] * noise[n] + 1 / std[n]) * torch.sigmoid(rho[n]) for n in noise}
        size = 0.5 * step_size * (1 + math.cos(math.pi * state.iteration.item() / steps))
        return _adam(drawn._replace(log_density=value.cpu()), ascent, size)

    settings = {
        "sampler": "mean_field",
        "density": log_density,
        "step_size": step_size,
        "steps": steps,
        "initial_std": initial_std,
    }
    return Sampler(init, step, settings, warm_up=steps)


def _adam(state: MeanFieldState, gradient: Params, size: float) -> MeanFieldState:
    """One step uphill; the first moments sum to less than one at the start, which the corrections make up for."""
    (b1, b2), t = ADAM_DECAYS, state.iteration.item()
    first = {name: b1 * m + (1 - b1) * gradient[name] for name, m in state.first.items()}
    second = {name: b2 * v + (1 - b2) * gradient[name].square() for name, v in state.second.items()}
    moved = {
        name: value + size * (first[name] / (1 - b1**t)) / ((second[name] / (1 - b2**t)).sqrt() + ADAM_EPSILON)
        for name, value in state.variational.items()
    }
    return state._replace(variational=moved, first=first, second=second)
