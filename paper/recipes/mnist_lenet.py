"""Draw the LeNet posteriors that ship with shiftmatch.

    python -m paper.recipes.mnist_lenet chain gaussian 0                 # one chain; resumes after an interruption
    python -m paper.recipes.mnist_lenet chain gaussian 1
    python -m paper.recipes.mnist_lenet chain empcov 0 --draws 20
    python -m paper.recipes.mnist_lenet chain empcov 1 --draws 20
    python -m paper.recipes.mnist_lenet pack gaussian                    # merge, diagnose, write
    python -m paper.recipes.mnist_lenet pack empcov --draws 20           # of longer chains every second draw ships
    python -m paper.recipes.mnist_lenet ensemble                         # train and write the deep ensemble

A chain goes on from its last draw that ships, or else starts from its own SGD solution, and takes one core. MNIST comes
from `shiftmatch data get mnist`. Integrator, preconditioner and step were chosen by energy error alone, never by
accuracy: the curvature of each layer's inputs (`layer_fisher`) allows steps three times as long as a diagonal does.
"""

import argparse
import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import shiftmatch
from shiftmatch.data import load
from shiftmatch.matching.average import average
from shiftmatch.models import Architecture
from shiftmatch.models.layers import initialise
from shiftmatch.samplers.density import LogPosterior, log_posterior
from shiftmatch.samplers.diagnostics import summarise
from shiftmatch.samplers.hmc import TWO_STAGE, hmc
from shiftmatch.samplers.posterior import Params, Posterior, add_scaled, standard_normal
from shiftmatch.samplers.preconditioning import Layerwise, layer_fisher
from shiftmatch.samplers.priors import Prior, Square, empcov, gaussian, patch_covariance
from shiftmatch.samplers.sampling import sample
from shiftmatch.samplers.sgld import deep_ensemble
from shiftmatch.utils.files import atomic_path

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "paper" / "runs"
EMBEDDED = ROOT / "src" / "shiftmatch" / "demo" / "embedded"

LENET = Architecture("lenet")
MEAN, STD = 0.1307, 0.3081
TRAIN, ALL = 5000, 60_000
WEIGHT_DECAY = 100.0
SEEDS = {"gaussian": 1000, "empcov": 2000, "ensemble": 300}
HMC: dict[str, Any] = {"trajectory": 1.5, "jitter": 0.2, "integrator": TWO_STAGE}
STEP = {"gaussian": 0.06, "empcov": 0.055}
BURN_IN, DRAWS = 6, 10
CHAINS = 2
CURVATURE_EXAMPLES = 1200
SGD: dict[str, Any] = {"step_size": 0.05 / TRAIN, "steps": 1250}
BATCH = 80
MEMBERS = 10
ENSEMBLE_DECAY = WEIGHT_DECAY * TRAIN / ALL  # the published ensembles' L2 term per image; they saw all of MNIST


def mnist(split: str, count: int) -> tuple[Tensor, Tensor]:
    """The first images of a split, normalised, and their labels."""
    digits = load("mnist", split, limit=count)
    pixels = digits.images[torch.arange(count)]
    return (pixels / 255 - MEAN) / STD, digits.labels


@cache
def sigma() -> Square:
    """The published EmpCov matrix: the covariance of the patches of all training images."""
    return patch_covariance(mnist("train", ALL)[0], 5)


def prior_named(name: str) -> Prior:
    if name == "empcov":
        return empcov("conv1.weight", sigma(), weight_decay=WEIGHT_DECAY, empcov_decay=WEIGHT_DECAY)
    return gaussian(ENSEMBLE_DECAY if name == "ensemble" else WEIGHT_DECAY)


def density(prior: str, batch_size: int | None = None) -> LogPosterior:
    return log_posterior(LENET.build(), mnist("train", TRAIN), prior=prior_named(prior), batch_size=batch_size)


def trained(prior: str, seed: int, members: int) -> Posterior:
    def start(generator: torch.Generator) -> torch.nn.Module:
        return initialise(LENET.build(), generator)

    return deep_ensemble(density(prior, BATCH), start, members=members, seed=seed, architecture=LENET, **SGD)


def points(prior: str) -> list[Params]:
    """Draws to go on from, those of one chain after those of the other: what ships, or else SGD solutions with noise as
    wide as the prior, which is about as far from the mode as the posterior is.
    """
    shipped = EMBEDDED / f"lenet_{prior}.safetensors"
    if shipped.exists():
        return list(Posterior.load(shipped))
    noise = torch.Generator().manual_seed(SEEDS[prior])
    modes = trained(prior, SEEDS[prior], members=CHAINS)
    return [add_scaled(mode, WEIGHT_DECAY**-0.5, standard_normal(mode, noise)) for mode in modes]


def preconditioner(prior: str, target: LogPosterior, draws: list[Params]) -> Layerwise:
    along_inputs = {"conv1.weight": WEIGHT_DECAY * torch.linalg.inv(sigma())} if prior == "empcov" else None
    return layer_fisher(
        target,
        draws,
        torch.Generator().manual_seed(0),
        precision=WEIGHT_DECAY,
        input_precision=along_inputs,
        examples=CURVATURE_EXAMPLES,
    )


def chain(prior: str, index: int, draws: int = DRAWS) -> Posterior:
    target, known = density(prior), points(prior)
    sampler = hmc(target, preconditioner=preconditioner(prior, target, known), step_size=STEP[prior], **HMC)
    return sample(
        sampler,
        known[(index + 1) * len(known) // CHAINS - 1],
        draws=draws,
        burn_in=BURN_IN,
        generator=torch.Generator().manual_seed(SEEDS[prior] + index),
        folder=RUNS / f"{prior}-{index}",
        architecture=LENET,
    )


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
        every = max(1, arguments.draws // DRAWS)  # as many ship, whatever the length of the chains
        settings = {"hmc": HMC, "burn_in": BURN_IN, "draws": arguments.draws, "kept": f"every {every}"}
        settings |= {"step": STEP[arguments.prior], "weight_decay": WEIGHT_DECAY, "seed": SEEDS[arguments.prior]}
        pack(arguments.prior, Posterior.merge(chains).thin(every), settings)
    else:
        members = trained("ensemble", SEEDS["ensemble"], MEMBERS)
        settings = {"sgd": SGD, "batch": BATCH, "weight_decay": ENSEMBLE_DECAY, "seed": SEEDS["ensemble"]}
        pack("ensemble", members, settings)


if __name__ == "__main__":
    main()
