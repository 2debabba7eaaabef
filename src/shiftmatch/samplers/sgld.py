"""Steps along gradients of minibatches: SGLD and SGHMC, which sample, and SGD, which trains an ensemble."""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from shiftmatch.models import Architecture
from shiftmatch.samplers.density import LogDensity
from shiftmatch.samplers.posterior import Params, Posterior, Scalar, add_scaled, standard_normal
from shiftmatch.samplers.sampling import Sampler, sample
from shiftmatch.utils.parallel import track
from shiftmatch.utils.processes import map_over_processes

Schedule = Callable[[int], float]
"""The number of steps taken so far -> the size of the next step."""


class SGHMCState(NamedTuple):
    """Parameters, momentum, the last (estimated) log density and the number of steps taken."""

    params: Params
    momentum: Params
    log_density: Scalar
    iteration: Scalar


def sghmc(log_density: LogDensity, *, step_size: float | Schedule, decay: float = 0.9) -> Sampler[SGHMCState]:
    """M ← β m + √ε ∇log p(θ) + √(2 (1−β)) ξ, θ ← θ + √ε m, with ξ ~ N(0, I) and the momentum `decay` β.

    The gradient is that of the whole log posterior, as estimated from the minibatch.

    Args:
        log_density: the density to draw from, such as `log_posterior` returns.
        step_size: ε, or a schedule such as `cyclical` returns.
        decay: the share β of the momentum that is kept.

    >>> from shiftmatch.samplers.density import FromFunction
    >>> normal = FromFunction(lambda params: -params["x"].square().sum() / 2)
    >>> sampler = sghmc(normal, step_size=0.01)
    >>> sampler.step(sampler.init({"x": torch.zeros(2)}), torch.Generator()).params["x"].shape
    torch.Size([2])
    """
    schedule = step_size if callable(step_size) else constant(step_size)

    def step(state: SGHMCState, generator: torch.Generator) -> SGHMCState:
        value, gradient = log_density.value_and_grad(state.params, generator)
        root = math.sqrt(schedule(int(state.iteration)))
        noise = standard_normal(state.params, generator)
        drift = {name: decay * m + root * gradient[name] for name, m in state.momentum.items()}
        momentum = add_scaled(drift, math.sqrt(2 * (1 - decay)), noise)
        return SGHMCState(add_scaled(state.params, root, momentum), momentum, value.cpu(), state.iteration + 1)

    settings = {"sampler": "sghmc", "density": log_density, "step_size": schedule, "decay": decay}
    return Sampler(lambda params: SGHMCState(*_at_rest(params)), step, settings)


def sgld(log_density: LogDensity, *, step_size: float | Schedule) -> Sampler[SGHMCState]:
    """θ ← θ + ε ∇log p(θ) + √(2 ε) ξ with ξ ~ N(0, I); Welling & Teh (2011) write ε/2 for this ε.

    It is SGHMC whose momentum is forgotten at every step.

    Args:
        log_density: the density to draw from, such as `log_posterior` returns.
        step_size: ε, or a schedule such as `cyclical` returns.

    >>> from shiftmatch.samplers.density import FromFunction
    >>> normal = FromFunction(lambda params: -params["x"].square().sum() / 2)
    >>> sampler = sgld(normal, step_size=0.01)
    >>> sampler.step(sampler.init({"x": torch.zeros(2)}), torch.Generator()).params["x"].shape
    torch.Size([2])
    """
    return sghmc(log_density, step_size=step_size, decay=0.0)


def constant(step_size: float, *, start: float | None = None, warm_up: int = 0) -> Schedule:
    """`step_size`, after a cosine from `start` to it over the first `warm_up` steps.

    Args:
        step_size: the value in the end.
        start: the value at first.
        warm_up: steps from one to the other.

    >>> schedule = constant(1.0, start=3.0, warm_up=10)
    >>> schedule(0), schedule(5), schedule(10), schedule(99)
    (3.0, 2.0, 1.0, 1.0)
    """

    def schedule(iteration: int) -> float:
        if start is None or iteration >= warm_up:
            return step_size
        return step_size + (start - step_size) * _cosine(iteration / warm_up)

    return schedule


def cyclical(step_size: float, *, cycle: int, warm_up: int = 0) -> Schedule:
    """`step_size` for the first `warm_up` steps; then, in every cycle, a cosine from it towards zero.

    Args:
        step_size: the value at the beginning of each cycle.
        cycle: steps in a cycle.
        warm_up: steps before the first cycle.

    >>> schedule = cyclical(1.0, cycle=10)
    >>> schedule(0), schedule(5), schedule(10)
    (1.0, 0.5, 1.0)
    """

    def schedule(iteration: int) -> float:
        return step_size if iteration < warm_up else step_size * _cosine((iteration - warm_up) % cycle / cycle)

    return schedule


def _cosine(fraction: float) -> float:
    """From 1 to 0 as the fraction goes from 0 to 1."""
    return 0.5 * (1 + math.cos(math.pi * fraction))


class SGDState(NamedTuple):
    """Parameters, the running velocity, the last (estimated) log density and the number of steps taken."""

    params: Params
    velocity: Params
    log_density: Scalar
    iteration: Scalar


def sgd(log_density: LogDensity, *, step_size: float, steps: int, momentum: float = 0.9) -> Sampler[SGDState]:
    """Climb log p(θ): v ← β v + ∇log p(θ), θ ← θ + ε_t v, with ε_t falling from `step_size` to 0 as a cosine.

    The gradient is that of the whole log posterior; for an optimiser of the mean loss over N images,
    its learning rate is N times this step size.

    Args:
        log_density: the density to draw from, such as `log_posterior` returns.
        step_size: the first ε.
        steps: after which it is 0.
        momentum: the share β of the velocity that is kept.

    >>> from shiftmatch.samplers.density import FromFunction
    >>> normal = FromFunction(lambda params: -params["x"].square().sum() / 2)
    >>> sampler = sgd(normal, step_size=0.1, steps=10, momentum=0.0)
    >>> sampler.step(sampler.init({"x": torch.ones(1)}), torch.Generator()).params["x"]
    tensor([0.9000])
    """

    def step(state: SGDState, generator: torch.Generator) -> SGDState:
        value, gradient = log_density.value_and_grad(state.params, generator)
        velocity = add_scaled(gradient, momentum, state.velocity)
        size = step_size * _cosine(state.iteration.item() / steps)
        return SGDState(add_scaled(state.params, size, velocity), velocity, value.cpu(), state.iteration + 1)

    settings = {
        "sampler": "sgd",
        "density": log_density,
        "step_size": step_size,
        "steps": steps,
        "momentum": momentum,
    }
    return Sampler(lambda params: SGDState(*_at_rest(params)), step, settings)


def _at_rest(params: Params) -> tuple[Params, Params, Scalar, Scalar]:
    """Parameters, no momentum, and nothing known or done yet."""
    zero = torch.zeros((), dtype=torch.float64)
    return params, {name: torch.zeros_like(value) for name, value in params.items()}, zero, zero


def deep_ensemble(
    log_density: LogDensity,
    start: Callable[[torch.Generator], nn.Module],
    *,
    members: int,
    step_size: float,
    steps: int,
    seed: int,
    momentum: float = 0.9,
    folder: str | os.PathLike[str] | None = None,
    architecture: Architecture | None = None,
    across_processes: bool = False,
) -> Posterior:
    """Train networks, each from its own start and with its own minibatches. BatchNorm stays in eval mode.

    Args:
        log_density: the density to draw from, such as `log_posterior` returns.
        start: a generator in, an untrained network out.
        members: how many networks.
        step_size: as for `sgd`.
        steps: as for `sgd`.
        seed: members have the seeds seed, seed + 1, …
        momentum: as for `sgd`.
        folder: members that are trained already and kept there are not trained again.
        architecture: the name and settings of the network, kept in files so that they can be opened without it.
        across_processes: whether the members are spread over the processes of torch.distributed.

    >>> from shiftmatch.samplers.density import log_posterior
    >>> density = log_posterior(nn.Linear(1, 2), (torch.ones(4, 1), torch.tensor([0, 0, 0, 1])))
    >>> len(deep_ensemble(density, lambda generator: nn.Linear(1, 2), members=3, step_size=0.1, steps=5, seed=0))
    3
    """
    trainer = sgd(log_density, step_size=step_size, steps=steps, momentum=momentum)

    def member(index: int) -> Posterior:
        generator = torch.Generator().manual_seed(seed + index)
        return sample(
            trainer,
            start(generator),
            draws=1,
            thin=steps,
            generator=generator,
            folder=Path(folder) / f"member-{index}" if folder else None,
            architecture=architecture,
            progress=False,  # there is a bar of the members
        )

    def run(indices: Sequence[int]) -> Iterator[Posterior]:
        return map(member, track(indices, "training members"))

    indices = range(members)
    return Posterior.merge(map_over_processes(run, indices) if across_processes else [*run(indices)])
