"""Hamiltonian Monte Carlo: trajectories accepted or rejected by their energy error, with a step size that is tuned."""

import math
from typing import NamedTuple

import torch

from shiftmatch.errors import InputError
from shiftmatch.samplers.density import LogDensity
from shiftmatch.samplers.posterior import Params, Scalar, add_scaled, inner, standard_normal
from shiftmatch.samplers.preconditioning import Preconditioner
from shiftmatch.samplers.sampling import Sampler

SHRINKAGE, STABILISATION, FORGETTING, FIRST_GUESS = 0.05, 10.0, 0.75, 10.0
"""γ, t₀, κ of dual averaging, and how many times the first step its first guess is (Hoffman & Gelman 2014)."""


class Integrator(NamedTuple):
    """One step: kick, drift, kick, …, kick by these fractions of the step size; palindromic, so reversible."""

    kicks: tuple[float, ...]
    drifts: tuple[float, ...]


LEAPFROG = Integrator(kicks=(0.5, 0.5), drifts=(1.0,))
"""One gradient to a step."""

TWO_STAGE = Integrator(kicks=(0.21178, 0.57644, 0.21178), drifts=(0.5, 0.5))
"""Two gradients to a step: smaller energy errors for the same work (Blanes, Casas & Sanz-Serna 2014)."""


class HMCState(NamedTuple):
    """Where the chain is, with log p and its gradient there, how the last proposal went, and the tuning so far.

    `virial` is −θ·∇log p(θ), whose mean under the posterior is the number of parameters.
    """

    params: Params
    gradient: Params
    log_density: Scalar
    virial: Scalar
    step_size: Scalar
    acceptance: Scalar
    accepted: Scalar
    energy_error: Scalar
    iteration: Scalar
    acceptance_gap: Scalar
    averaged_step: Scalar


class PhasePoint(NamedTuple):
    """A point in phase space, with log p and its gradient at the position."""

    params: Params
    momentum: Params
    log_density: Scalar
    gradient: Params

    @property
    def energy(self) -> Scalar:
        """H = −log p(θ) + ½ |m|²."""
        return 0.5 * inner(self.momentum, self.momentum) - self.log_density


def hmc(
    log_density: LogDensity,
    *,
    step_size: float,
    trajectory: float,
    jitter: float = 0.2,
    integrator: Integrator = LEAPFROG,
    preconditioner: Preconditioner | None = None,
    tune: int = 0,
    target: float = 0.8,
) -> Sampler[HMCState]:
    """Follow Hamilton's equations for a time `trajectory` in steps of `step_size`, then accept or reject.

    Times are in units of the `preconditioner`: without one, in those of the parameters.

    Args:
        log_density: the density to draw from, such as `log_posterior` returns.
        step_size: of the integrator; the first one, where it is tuned.
        trajectory: how long to follow each trajectory.
        jitter: its time is drawn from (1 ± jitter) trajectory, because a fixed one can be a period of the motion, from
            which the chain does not move away; 0 is the published, fixed one.
        integrator: `LEAPFROG` or `TWO_STAGE`.
        preconditioner: scales of the parameters, such as `layer_fisher` returns.
        tune: so many first iterations adapt the step size by dual averaging (Nesterov 2009; Hoffman & Gelman 2014);
            `sample` refuses to keep draws of those.
        target: the acceptance probability that this aims at.

    >>> from shiftmatch.samplers.density import FromFunction
    >>> normal = FromFunction(lambda params: -params["x"].square().sum() / 2)
    >>> sampler = hmc(normal, step_size=0.1, trajectory=1.5)
    >>> state = sampler.step(sampler.init({"x": torch.zeros(2)}), torch.Generator().manual_seed(0))
    >>> bool(state.acceptance > 0.9)
    True
    """
    if not 0 < step_size <= trajectory:
        raise InputError(f"A step must be positive and no longer than the trajectory ({trajectory}), not {step_size}.")
    if not 0 <= jitter < 1:
        raise InputError(f"jitter is a fraction of the trajectory, from 0 to below 1, not {jitter}.")
    if (batch := getattr(log_density, "batch_size", None)) is not None:
        raise InputError(
            f"HMC needs the gradient of all the data, and this density takes minibatches of {batch}: the energy error "
            "would be that of the minibatches. Leave out batch_size, or use sgld or sghmc."
        )

    def init(params: Params) -> HMCState:
        value, gradient = log_density.value_and_grad(params, torch.Generator())
        if not value.isfinite():
            raise InputError(
                f"log p is {value.item()} at the start, so every proposal would be rejected. Start elsewhere, or look "
                "for NaN in the data."
            )
        zero = torch.zeros((), dtype=torch.float64)
        first = zero + step_size
        virial = -inner(params, gradient).cpu()
        return HMCState(params, gradient, value.cpu(), virial, first, zero, zero, zero, zero, zero, first)

    def step(state: HMCState, generator: torch.Generator) -> HMCState:
        start = PhasePoint(state.params, standard_normal(state.params, generator), state.log_density, state.gradient)
        time = trajectory * (1 + jitter * (2 * _uniform(generator) - 1) if jitter else 1.0)
        size = state.step_size.item()
        steps = math.ceil(time / size)
        end = integrate(log_density, start, integrator, preconditioner, size=size, steps=steps, generator=generator)
        error = (end.energy - start.energy).cpu()
        acceptance = torch.exp(-error).clamp(max=1) if error.isfinite() else torch.zeros_like(error)
        accepted = _uniform(generator) < acceptance.item()
        kept = end if accepted else start
        here = state._replace(
            params=kept.params,
            gradient=kept.gradient,
            log_density=kept.log_density.cpu(),
            virial=-inner(kept.params, kept.gradient).cpu(),
            acceptance=acceptance,
            accepted=torch.tensor(float(accepted), dtype=torch.float64),
            energy_error=error,
            iteration=state.iteration + 1,
        )
        return _tuned(here, step_size, target, trajectory, last=tune) if here.iteration <= tune else here

    settings = {
        "sampler": "hmc",
        "density": log_density,
        "step_size": step_size,
        "trajectory": trajectory,
        "jitter": jitter,
        "integrator": integrator,
        "preconditioner": preconditioner,
        "tune": tune,
        "target": target,
    }
    return Sampler(init, step, settings, warm_up=tune)


def integrate(
    log_density: LogDensity,
    start: PhasePoint,
    integrator: Integrator,
    preconditioner: Preconditioner | None,
    *,
    size: float,
    steps: int,
    generator: torch.Generator,
) -> PhasePoint:
    """Kicks and drifts in turn, in steps of `size`: reversible, and they preserve volume.

    A non-finite log density ends the trajectory early.
    """
    params, momentum, value, gradient = start
    force = preconditioner.transpose(gradient) if preconditioner else gradient
    first, *later = integrator.kicks
    for _ in range(steps):
        momentum = add_scaled(momentum, first * size, force)
        for drift, kick in zip(integrator.drifts, later, strict=True):
            velocity = preconditioner.apply(momentum) if preconditioner else momentum
            params = add_scaled(params, drift * size, velocity)
            value, gradient = log_density.value_and_grad(params, generator)
            force = preconditioner.transpose(gradient) if preconditioner else gradient
            momentum = add_scaled(momentum, kick * size, force)
        if not value.isfinite():
            break
    return PhasePoint(params, momentum, value, gradient)


def _tuned(state: HMCState, first: float, target: float, longest: float, *, last: int) -> HMCState:
    """Dual averaging: log ε_t = μ − √t/γ h_t, h_t the mean of target − acceptance; the `last` step is the average."""
    t = state.iteration.item()
    gap = state.acceptance_gap + (target - state.acceptance - state.acceptance_gap) / (t + STABILISATION)
    step = (FIRST_GUESS * first * torch.exp(-math.sqrt(t) / SHRINKAGE * gap)).clamp(max=longest)
    weight = t**-FORGETTING
    averaged = torch.exp(weight * step.log() + (1 - weight) * state.averaged_step.log())
    return state._replace(acceptance_gap=gap, averaged_step=averaged, step_size=averaged if t == last else step)


def _uniform(generator: torch.Generator) -> float:
    return torch.rand((), generator=generator, dtype=torch.float64, device=generator.device).item()
