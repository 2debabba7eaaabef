"""Hamiltonian Monte Carlo: trajectories of fixed length, accepted or rejected by their energy error."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from shiftmatch.errors import InputError
from shiftmatch.samplers.interface import LogDensity, Sampler
from shiftmatch.samplers.params import Params, Scalar, inner, standard_normal

TUNING_DECAY = 0.6
"""Robbins-Monro needs gains t^-κ with ½ < κ ≤ 1; small κ forgets the first guess fast."""


class Integrator(NamedTuple):
    """One step: kick, drift, kick, …, kick by these fractions of the step size; palindromic, so reversible."""

    kicks: tuple[float, ...]
    drifts: tuple[float, ...]


LEAPFROG = Integrator(kicks=(0.5, 0.5), drifts=(1.0,))
"""One gradient to a step."""

TWO_STAGE = Integrator(kicks=(0.21178, 0.57644, 0.21178), drifts=(0.5, 0.5))
"""Two gradients to a step: smaller energy errors for the same work (Blanes, Casas & Sanz-Serna 2014)."""


class HMCState(NamedTuple):
    """Where the chain is, with log p and its gradient there, and how the last proposal went."""

    params: Params
    gradient: Params
    log_density: Scalar
    step_size: Scalar
    acceptance: Scalar
    accepted: Scalar
    energy_error: Scalar
    iteration: Scalar


class Leap(NamedTuple):
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
    integrator: Integrator = LEAPFROG,
    scales: Params | None = None,
    tune: int = 0,
    target: float = 0.9,
) -> Sampler[HMCState]:
    """Follow Hamilton's equations for a time `trajectory` in steps of `step_size`, then accept or reject.

    `scales` says how far each parameter may move compared with the others, such as `fisher_scales`; the mass matrix
    is diag(scales)⁻². Times are relative to them: without scales, they are those of the parameters themselves.

    For the first `tune` iterations the step size is adapted until the acceptance probability is about `target`:
    log ε ← log ε + t^-κ (acceptance − target). Those iterations belong to the burn-in.

    >>> from shiftmatch.samplers.interface import FromFunction
    >>> normal = FromFunction(lambda params: -params["x"].square().sum() / 2)
    >>> sampler = hmc(normal, step_size=0.1, trajectory=1.5)
    >>> state = sampler.step(sampler.init({"x": torch.zeros(2)}), torch.Generator().manual_seed(0))
    >>> bool(state.acceptance > 0.9)
    True
    """
    if not 0 < step_size <= trajectory:
        raise InputError(f"A step must be positive and no longer than the trajectory ({trajectory}), not {step_size}.")

    def init(params: Params) -> HMCState:
        value, gradient = log_density.value_and_grad(params, torch.Generator())
        zero = torch.zeros((), dtype=torch.float64)
        return HMCState(params, gradient, value, zero + step_size, zero, zero, zero, zero)

    def step(state: HMCState, generator: torch.Generator) -> HMCState:
        momentum = standard_normal(state.params, generator)
        start = Leap(state.params, momentum, state.log_density, state.gradient)
        size = state.step_size.item()
        steps = math.ceil(trajectory / size)
        strides = {name: size * scales[name] if scales else size for name in momentum}
        end = integrate(log_density, start, integrator, strides, steps=steps, generator=generator)
        error = end.energy - start.energy
        acceptance = torch.exp(-error).clamp(max=1) if error.isfinite() else torch.zeros_like(error)
        accepted = torch.rand((), generator=generator, dtype=torch.float64) < acceptance
        kept = end if accepted else start
        iteration = state.iteration + 1
        gain = iteration**-TUNING_DECAY if iteration <= tune else 0.0
        tuned = (state.step_size * torch.exp(gain * (acceptance - target))).clamp(max=trajectory)
        place = (kept.params, kept.gradient, kept.log_density)
        return HMCState(*place, tuned, acceptance, accepted.double(), error, iteration)

    return Sampler(init, step)


def integrate(
    log_density: LogDensity,
    start: Leap,
    integrator: Integrator,
    strides: Mapping[str, Tensor | float],
    *,
    steps: int,
    generator: torch.Generator,
) -> Leap:
    """Kicks and drifts in turn, in steps of `strides`: reversible, and they preserve volume.

    A non-finite log density ends the trajectory early.
    """
    params, momentum, value, gradient = start
    first, *later = integrator.kicks
    for _ in range(steps):
        momentum = _moved(momentum, first, strides, gradient)
        for drift, kick in zip(integrator.drifts, later, strict=True):
            params = _moved(params, drift, strides, momentum)
            value, gradient = log_density.value_and_grad(params, generator)
            momentum = _moved(momentum, kick, strides, gradient)
        if not value.isfinite():
            break
    return Leap(params, momentum, value, gradient)


def _moved(x: Params, fraction: float, strides: Mapping[str, Tensor | float], direction: Params) -> Params:
    return {name: value + fraction * strides[name] * direction[name] for name, value in x.items()}
