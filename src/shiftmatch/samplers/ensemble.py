"""Deep ensembles: independent training runs from independent starts, seen as draws."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from shiftmatch.models import Architecture
from shiftmatch.samplers.density import LogDensity
from shiftmatch.samplers.params import Params, Scalar, add_scaled
from shiftmatch.samplers.posterior import Posterior
from shiftmatch.samplers.sampling import Sampler, sample
from shiftmatch.utils.parallel import track


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
    """

    def init(params: Params) -> SGDState:
        zero = torch.zeros((), dtype=torch.float64)
        return SGDState(params, {name: torch.zeros_like(value) for name, value in params.items()}, zero, zero)

    def step(state: SGDState, generator: torch.Generator) -> SGDState:
        value, gradient = log_density.value_and_grad(state.params, generator)
        velocity = add_scaled(gradient, momentum, state.velocity)
        size = 0.5 * step_size * (1 + math.cos(math.pi * state.iteration.item() / steps))
        return SGDState(add_scaled(state.params, size, velocity), velocity, value.cpu(), state.iteration + 1)

    settings = {
        "sampler": "sgd",
        "density": log_density,
        "step_size": step_size,
        "steps": steps,
        "momentum": momentum,
    }
    return Sampler(init, step, settings)


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
) -> Posterior:
    """Train `members` networks, each from its own start and with its own minibatches.

    With a `folder`, members that are trained already are not trained again. BatchNorm stays in eval mode.

    >>> from shiftmatch.samplers.density import log_posterior
    >>> density = log_posterior(nn.Linear(1, 2), (torch.ones(4, 1), torch.tensor([0, 0, 0, 1])))
    >>> len(deep_ensemble(density, lambda generator: nn.Linear(1, 2), members=3, step_size=0.1, steps=5, seed=0))
    3
    """
    trainer = sgd(log_density, step_size=step_size, steps=steps, momentum=momentum)
    trained = []
    for index in track(range(members), "training members"):
        generator = torch.Generator().manual_seed(seed + index)
        run = sample(
            trainer,
            start(generator),
            draws=1,
            thin=steps,
            generator=generator,
            folder=Path(folder) / f"member-{index}" if folder else None,
            architecture=architecture,
        )
        trained.append(run)
    return Posterior.merge(trained)
