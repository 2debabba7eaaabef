"""Run as a script: a run that is killed again and again, and one that is not. Importing once makes it quick."""

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from shiftmatch.samplers.density import log_posterior
from shiftmatch.samplers.hmc import hmc
from shiftmatch.samplers.sampling import sample

KILLS = 10


def run(folder: Path) -> None:
    """Sample a small Bayesian classifier into `folder`, and the whole posterior into a file beside it."""
    generator = torch.Generator().manual_seed(7)
    model = torch.nn.Linear(20, 3)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    data = torch.randn(400, 20, generator=generator), torch.randint(3, (400,), generator=generator)
    sampler = hmc(log_posterior(model, data), step_size=0.05, trajectory=0.5, tune=5)
    posterior = sample(sampler, model, draws=50, burn_in=10, generator=generator, folder=folder)
    posterior.save(folder.with_suffix(".safetensors"))


def start(folder: Path) -> int:
    """Run in a copy of this process, and return its id."""
    if child := os.fork():
        return child
    run(folder)
    os._exit(0)


def kill_after_progress(folder: Path, delay: float) -> bool:
    """Start or resume, wait for a new state and `delay` seconds more, kill; False if the run had ended by then."""
    state = folder / "state.safetensors"
    before = state.stat().st_mtime_ns if state.exists() else 0
    child = start(folder)
    while not state.exists() or state.stat().st_mtime_ns == before:
        time.sleep(0.001)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


if __name__ == "__main__":
    torch.set_num_threads(1)
    here, moments = Path(sys.argv[1]), random.Random(0)
    run(here / "calm")
    killed = [kill_after_progress(here / "rough", moments.uniform(0, 0.03)) for _ in range(KILLS)]
    run(here / "rough")
    sys.exit(0 if all(killed) else "the run is too short for that many kills")
