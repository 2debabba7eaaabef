"""Draw the LeNet posteriors that ship with shiftmatch.

    python recipes/mnist_lenet.py chain gaussian 0        # one chain; the same command goes on after a kill
    python recipes/mnist_lenet.py chain gaussian 1
    python recipes/mnist_lenet.py chain empcov 0
    python recipes/mnist_lenet.py chain empcov 1
    python recipes/mnist_lenet.py ensemble
    python recipes/mnist_lenet.py pack                    # merge, diagnose, and write src/shiftmatch/embedded/

Each chain starts from its own SGD solution and takes one core; MNIST is read from $SHIFTMATCH_DATA/mnist.
"""

import argparse
import json
import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from shiftmatch.models import Architecture
from shiftmatch.models.init import initialise
from shiftmatch.samplers.density import LogPosterior, log_posterior
from shiftmatch.samplers.empcov import covariance, empcov, patches
from shiftmatch.samplers.ensemble import deep_ensemble
from shiftmatch.samplers.hmc import TWO_STAGE, hmc
from shiftmatch.samplers.params import Params, add_scaled, standard_normal
from shiftmatch.samplers.posterior import Posterior
from shiftmatch.samplers.preconditioning import fisher_scales
from shiftmatch.samplers.priors import Prior, gaussian
from shiftmatch.samplers.sampling import sample

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "runs"
EMBEDDED = ROOT / "src" / "shiftmatch" / "embedded"
DATA = Path(os.environ.get("SHIFTMATCH_DATA", Path.home() / ".cache" / "shiftmatch")) / "mnist"

LENET = Architecture("lenet")
TRAIN = 5000
WEIGHT_DECAY = 100.0
SEEDS = {"gaussian": 100, "empcov": 200, "ensemble": 300}
HMC = {"step_size": 0.033, "trajectory": 1.5, "integrator": TWO_STAGE}
BURN_IN = 3
SGD = {"step_size": 0.05 / TRAIN, "steps": 1250}
BATCH = 80
MEMBERS = 10


def images(split: str, count: int) -> Tensor:
    pixels = np.fromfile(DATA / f"{split}-images-idx3-ubyte", np.uint8, offset=16, count=count * 28 * 28)
    return (torch.from_numpy(pixels).reshape(-1, 1, 28, 28) / 255 - 0.1307) / 0.3081


def labels(split: str, count: int) -> Tensor:
    return torch.from_numpy(np.fromfile(DATA / f"{split}-labels-idx1-ubyte", np.uint8, offset=8, count=count)).long()


def prior_named(name: str) -> Prior:
    if name == "empcov":
        return empcov("conv1.weight", covariance(patches(images("train", TRAIN), 5)), weight_decay=WEIGHT_DECAY)
    return gaussian(WEIGHT_DECAY)


def density(prior: str, batch_size: int | None = None) -> LogPosterior:
    data = images("train", TRAIN), labels("train", TRAIN)
    return log_posterior(LENET.build(), data, prior=prior_named(prior), batch_size=batch_size)


def ensemble(prior: str, seed: int, members: int) -> Posterior:
    def start(generator: torch.Generator) -> torch.nn.Module:
        return initialise(LENET.build(), generator)

    return deep_ensemble(density(prior, BATCH), start, members=members, seed=seed, architecture=LENET, **SGD)


def scales(target: LogPosterior, start: Params, seed: int) -> Params:
    """From the curvature at a point as far from the mode as the prior is wide, where the draws will be."""
    generator = torch.Generator().manual_seed(seed)
    typical = add_scaled(start, WEIGHT_DECAY**-0.5, standard_normal(start, generator))
    return fisher_scales(target, typical, generator, precision=WEIGHT_DECAY)


def chain(prior: str, index: int, draws: int) -> Posterior:
    seed = SEEDS[prior] + index
    begin = RUNS / f"{prior}-{index}" / "start.safetensors"
    if not begin.exists():
        ensemble(prior, seed, members=1).save(begin)
    start, target = Posterior.load(begin)[0], density(prior)
    return sample(
        hmc(target, scales=scales(target, start, seed), **HMC),
        start,
        draws=draws,
        burn_in=BURN_IN,
        generator=torch.Generator().manual_seed(seed),
        folder=begin.parent,
        architecture=LENET,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["chain"])
    parser.add_argument("prior", choices=["gaussian", "empcov"])
    parser.add_argument("index", type=int)
    parser.add_argument("draws", type=int)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    chain(arguments.prior, arguments.index, arguments.draws)
