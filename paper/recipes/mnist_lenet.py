"""Draw the LeNet posteriors that ship with shiftmatch.

    python paper/recipes/mnist_lenet.py chain gaussian 0    # one chain; the same command goes on after a kill
    python paper/recipes/mnist_lenet.py chain gaussian 1
    python paper/recipes/mnist_lenet.py chain empcov 0
    python paper/recipes/mnist_lenet.py chain empcov 1
    python paper/recipes/mnist_lenet.py pack gaussian       # merge, diagnose, write src/shiftmatch/demo/embedded/
    python paper/recipes/mnist_lenet.py pack empcov
    python paper/recipes/mnist_lenet.py ensemble            # train and write the deep ensemble

Each chain starts from its own SGD solution and takes one core. MNIST comes from `shiftmatch data get mnist`.
Integrator, scales and start were chosen among six configurations by energy error and log density alone, never by
accuracy. A chain approaches the typical set with a step that accepts about three of four, then draws with a
smaller one that accepts more.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import shiftmatch
from shiftmatch.data import load
from shiftmatch.matching.average import average
from shiftmatch.models import Architecture
from shiftmatch.models.init import initialise
from shiftmatch.samplers.density import LogPosterior, log_posterior
from shiftmatch.samplers.diagnostics import summarise
from shiftmatch.samplers.empcov import covariance, empcov, patches
from shiftmatch.samplers.ensemble import deep_ensemble
from shiftmatch.samplers.hmc import TWO_STAGE, hmc
from shiftmatch.samplers.params import Params, add_scaled, standard_normal
from shiftmatch.samplers.posterior import Posterior
from shiftmatch.samplers.preconditioning import fisher_scales
from shiftmatch.samplers.priors import Prior, gaussian
from shiftmatch.samplers.sampling import sample
from shiftmatch.utils.files import atomic_path

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "runs"
EMBEDDED = ROOT / "src" / "shiftmatch" / "embedded"

LENET = Architecture("lenet")
MEAN, STD = 0.1307, 0.3081
TRAIN = 5000
WEIGHT_DECAY = 100.0
SEEDS = {"gaussian": 100, "empcov": 200, "ensemble": 300}
HMC: dict[str, Any] = {"trajectory": 1.5, "integrator": TWO_STAGE}
APPROACH_STEP = 0.026
STEP = {"gaussian": 0.021, "empcov": 0.018}
BURN_IN, DRAWS = 6, 10
CHAINS = 2
SGD: dict[str, Any] = {"step_size": 0.05 / TRAIN, "steps": 1250}
BATCH = 80
MEMBERS = 10
ENSEMBLE_DECAY = WEIGHT_DECAY * TRAIN / 60_000  # the published ensembles' L2 term per image; they saw all of MNIST


def mnist(split: str, count: int) -> tuple[Tensor, Tensor]:
    """The first images of a split, normalised, and their labels."""
    digits = load("mnist", split, limit=count)
    pixels = digits.images[torch.arange(count)]
    return (pixels / 255 - MEAN) / STD, digits.labels


def prior_named(name: str) -> Prior:
    if name == "empcov":
        return empcov("conv1.weight", covariance(patches(mnist("train", TRAIN)[0], 5)), weight_decay=WEIGHT_DECAY)
    return gaussian(ENSEMBLE_DECAY if name == "ensemble" else WEIGHT_DECAY)


def density(prior: str, batch_size: int | None = None) -> LogPosterior:
    return log_posterior(LENET.build(), mnist("train", TRAIN), prior=prior_named(prior), batch_size=batch_size)


def trained(prior: str, seed: int, members: int) -> Posterior:
    def start(generator: torch.Generator) -> torch.nn.Module:
        return initialise(LENET.build(), generator)

    return deep_ensemble(density(prior, BATCH), start, members=members, seed=seed, architecture=LENET, **SGD)


def scales(target: LogPosterior, mode: Params, seed: int) -> Params:
    """From the curvature at a point as far from the mode as the draws will be: the prior's width away."""
    generator = torch.Generator().manual_seed(seed)
    typical = add_scaled(mode, WEIGHT_DECAY**-0.5, standard_normal(mode, generator))
    return fisher_scales(target, typical, generator, precision=WEIGHT_DECAY)


def chain(prior: str, index: int, draws: int = DRAWS) -> Posterior:
    seed, folder, target = SEEDS[prior] + index, RUNS / f"{prior}-{index}", density(prior)
    file = folder / "mode.safetensors"
    if not file.exists():
        trained(prior, seed, members=1).save(file)
    mode = Posterior.load(file)[0]
    geometry = scales(target, mode, seed)

    def run(step_size: float, start: Params, seed: int, **settings: Any) -> Posterior:
        sampler = hmc(target, scales=geometry, step_size=step_size, **HMC)
        return sample(sampler, start, generator=torch.Generator().manual_seed(seed), architecture=LENET, **settings)

    approach = run(APPROACH_STEP, mode, seed, draws=1, burn_in=BURN_IN, folder=folder)
    return run(STEP[prior], approach[0], seed + CHAINS, draws=draws, folder=folder / "draws")


def pack(name: str, posterior: Posterior, settings: dict[str, Any]) -> None:
    """Write the posterior in half precision, and beside it how it was made and how good it is."""
    posterior.save(EMBEDDED / f"lenet_{name}.safetensors", dtype=torch.float16)
    shipped = Posterior.load(EMBEDDED / f"lenet_{name}.safetensors")
    result = {
        "data": f"MNIST, the first {TRAIN} training images",
        "settings": settings,
        "versions": {"torch": torch.__version__, "shiftmatch": shiftmatch.__version__},
        "test_accuracy": accuracy(shipped),
        "test_accuracy_of_members": [accuracy(shipped[index : index + 1]) for index in range(len(shipped))],
        "diagnostics": summarise(shipped, mnist("test", 500)[0]) if name != "ensemble" else {},
    }
    with atomic_path(EMBEDDED / f"lenet_{name}.json") as temporary:
        temporary.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


def accuracy(posterior: Posterior) -> float:
    images, labels = mnist("test", 10_000)
    return (average(posterior)(images).argmax(-1) == labels).double().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["chain", "pack", "ensemble"])
    parser.add_argument("prior", choices=["gaussian", "empcov"], nargs="?", default="gaussian")
    parser.add_argument("index", type=int, nargs="?", default=0)
    parser.add_argument("--draws", type=int, default=DRAWS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.what == "chain":
        chain(arguments.prior, arguments.index, arguments.draws)
    elif arguments.what == "pack":
        chains = [chain(arguments.prior, index, arguments.draws) for index in range(CHAINS)]
        settings = {"hmc": HMC, "approach_step": APPROACH_STEP, "burn_in": BURN_IN + 1, "step": STEP[arguments.prior]}
        settings |= {"weight_decay": WEIGHT_DECAY, "seed": SEEDS[arguments.prior]}
        pack(arguments.prior, Posterior.merge(chains), settings)
    else:
        members = trained("ensemble", SEEDS["ensemble"], MEMBERS)
        settings = {"sgd": SGD, "batch": BATCH, "weight_decay": ENSEMBLE_DECAY, "seed": SEEDS["ensemble"]}
        pack("ensemble", members, settings)


if __name__ == "__main__":
    main()
