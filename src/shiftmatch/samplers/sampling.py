"""sample(): the one loop that every sampler runs in."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from shiftmatch.models import Architecture
from shiftmatch.samplers.interface import Sampler, State
from shiftmatch.samplers.params import Params, params_of
from shiftmatch.samplers.posterior import Posterior
from shiftmatch.samplers.storage import RunFolder
from shiftmatch.utils.progress import track

S = TypeVar("S", bound=State)


def sample(
    sampler: Sampler[S],
    start: nn.Module | Params,
    *,
    draws: int,
    generator: torch.Generator,
    burn_in: int = 0,
    thin: int = 1,
    folder: str | os.PathLike[str] | None = None,
    architecture: Architecture | None = None,
) -> Posterior:
    """Run one chain: `burn_in` iterations that are thrown away, then `draws` that are kept, `thin` steps to each.

    With a `folder`, state and draws are written after each iteration; the same call goes on where a killed one
    stopped, and gives the same draws bit for bit. More `draws` than before extend the run. The scalars of every
    state (acceptance, energy error, …) are in `posterior.info["trace"]`.

    >>> from shiftmatch.samplers.hmc import hmc
    >>> from shiftmatch.samplers.interface import FromFunction
    >>> normal = FromFunction(lambda params: -params["x"].square().sum() / 2)
    >>> chain = hmc(normal, step_size=0.5, trajectory=1.5)
    >>> posterior = sample(chain, {"x": torch.zeros(3)}, draws=5, generator=torch.Generator().manual_seed(0))
    >>> posterior.params["x"].shape, len(posterior.info["trace"]["acceptance"])
    (torch.Size([5, 3]), 5)
    """
    settings = {"seed": generator.initial_seed(), "burn_in": burn_in, "thin": thin}
    state = sampler.init(params_of(start) if isinstance(start, nn.Module) else start)
    trace: dict[str, list[float]] = {}
    kept: list[Params] = []
    run = RunFolder(Path(folder), settings) if folder else None
    if run and (restored := run.restore(state, generator)):
        state, trace, kept = restored
    done = len(next(iter(trace.values()), []))
    for iteration in track(range(done, burn_in + draws), "sampling"):
        for _ in range(thin):
            state = sampler.step(state, generator)
        _record(trace, state)
        if iteration >= burn_in:
            kept.append(state.params)
            if run:
                run.save_draw(len(kept) - 1, state.params)
        if run:
            run.save(state, generator, trace, len(kept))
    return Posterior.of(kept[:draws], architecture=architecture, info=settings | {"trace": trace})


def sample_chains(
    sampler: Sampler[S],
    starts: Sequence[nn.Module | Params],
    *,
    draws: int,
    seed: int,
    burn_in: int = 0,
    thin: int = 1,
    folder: str | os.PathLike[str] | None = None,
    architecture: Architecture | None = None,
) -> Posterior:
    """One chain from each start, with the seeds `seed`, `seed` + 1, …, merged; R̂ compares them."""
    chains = []
    for index, start in enumerate(starts):
        generator = torch.Generator().manual_seed(seed + index)
        place = Path(folder) / f"chain-{index}" if folder else None
        chain = sample(
            sampler,
            start,
            draws=draws,
            generator=generator,
            burn_in=burn_in,
            thin=thin,
            folder=place,
            architecture=architecture,
        )
        chains.append(chain)
    return Posterior.merge(chains)


def _record(trace: dict[str, list[float]], state: State) -> None:
    for field, value in state._asdict().items():
        if isinstance(value, Tensor) and value.dim() == 0:
            trace.setdefault(field, []).append(value.item())
