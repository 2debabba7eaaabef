"""A posterior around the released CIFAR ResNet-20: what "a pre-trained Bayesian network" means to most users.

    python -m paper.recipes.cifar_released_posterior all    # SGHMC from the released weights, every parameter
    python -m paper.recipes.cifar_released_posterior head   # full-batch HMC of the last layer, two chains

The same command resumes after an interruption, and writes draws and their accuracies below --runs. BatchNorm uses its
running moments, so that the likelihood is a function of the weights alone. The prior is N(0, 1/5) on every parameter,
which is the weight decay of 1e-4 that the network was trained with, for 50,000 images. With a step of 2e-7 instead of
3e-8 the draws had 83.2 to 88.7 % and their average 92.35 (the trained network: 91.65): too long.

`all` is tempered (0.02 unless told otherwise). At temperature 1 a chain of a few hundred steps moves away from the
trained weights without reaching the posterior. The draws are a neighbourhood of the trained weights, not a converged
posterior. `head` has temperature 1 and two chains, one of them from a start as wide as the prior; R-hat, effective
sizes (ours, and by ArviZ) and E[θ·∇U] are written beside its draws.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from paper.cifar import released
from paper.cifar import released_preprocess as preprocess
from paper.recipes.independent import by_arviz
from paper.run import Root
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from shiftmatch.data import load
from shiftmatch.models import Architecture
from shiftmatch.samplers.density import log_posterior
from shiftmatch.samplers.diagnostics import distinct_draws, summarise
from shiftmatch.samplers.hmc import hmc
from shiftmatch.samplers.posterior import Params, Posterior, add_scaled, params_of, standard_normal
from shiftmatch.samplers.preconditioning import layer_fisher
from shiftmatch.samplers.priors import gaussian
from shiftmatch.samplers.sampling import sample, sample_chains
from shiftmatch.samplers.sgld import sghmc
from shiftmatch.utils.files import atomic_path

RUNS = Path(__file__).parents[1] / "runs"
RESNET = Architecture("cifar_resnet", {"depth": 20})
TRAIN, TEST = 50_000, 2000
WEIGHT_DECAY = 1e-4 * TRAIN
SEED = 0
PIECE = 500
HEAD: dict[str, Any] = {"step_size": 0.1, "trajectory": 1.5, "tune": 30}
HEAD_DRAWS, HEAD_TEST = 100, 300


def images(split: str, count: int, data: Root = None) -> tuple[Tensor, Tensor]:
    """The first images of a split, as the network takes them, and their labels."""
    found = load("cifar10", split, root=data, limit=count)
    return preprocess(found.images[torch.arange(count)]), found.labels


@dataclass(frozen=True)
class Around:
    """SGHMC on minibatches from the released weights, over every parameter; kept draws lie `steps` steps apart."""

    depth: int = 20
    images: int = TRAIN
    batch: int = 64
    step_size: float = 3e-8
    decay: float = 0.9
    temperature: float = 0.02
    draws: int = 12
    burn_in: int = 2
    steps: int = 20

    def sample(self, folder: Path, data: Root = None) -> Posterior:
        """Run the chain, or go on with it."""
        network, examples = released(self.depth, data), images("train", self.images, data)
        prior = gaussian(WEIGHT_DECAY)
        density = log_posterior(network, examples, prior=prior, batch_size=self.batch, temperature=self.temperature)
        # The density is divided by the temperature, so this is the step of the untempered one times the temperature.
        sampler = sghmc(density, step_size=self.step_size * self.temperature, decay=self.decay)
        return sample(
            sampler,
            network,
            draws=self.draws,
            burn_in=self.burn_in,
            thin=self.steps,
            generator=torch.Generator().manual_seed(SEED),
            folder=folder,
            architecture=Architecture("cifar_resnet", {"depth": self.depth}),
        )


def sample_head(folder: Path, *, draws: int) -> Posterior:
    """The last layer, with HMC over all images: what comes before it is frozen, so its features are computed once."""
    network = released(20)
    inputs, labels = images("train", TRAIN)
    if not (file := folder / "features.safetensors").exists():
        with atomic_path(file) as path:
            save_file({"features": features(network, inputs)}, path)
    data = load_file(file)["features"], labels
    head: nn.Module = network.get_submodule("linear")
    density = log_posterior(head, data, prior=gaussian(WEIGHT_DECAY), micro_batch=5000)
    start = params_of(head)
    curvature = layer_fisher(density, [start], torch.Generator().manual_seed(SEED), precision=WEIGHT_DECAY)
    # As wide as the prior: most of it is far from the posterior, and a shift of all logits, which only the prior
    # speaks of and which the chain forgets slowly, is already as wide as it should be.
    noise = standard_normal(start, torch.Generator().manual_seed(SEED))
    away = add_scaled(start, WEIGHT_DECAY**-0.5, noise)
    starts: list[nn.Module | Params] = [start, away]
    chains = sample_chains(
        hmc(density, preconditioner=curvature, **HEAD),
        starts,
        draws=draws,
        burn_in=HEAD["tune"],
        seed=SEED,
        folder=folder / "head",
    )
    tests = features(network, images("test", HEAD_TEST)[0])
    found = summarise(chains, tests, head) | {"by arviz": by_arviz(chains, tests, head)}
    with atomic_path(folder / "cifar_resnet20_head_diagnostics.json") as path:
        path.write_text(json.dumps(found, indent=2) + "\n")
    rest = {name: value for name, value in params_of(network).items() if not name.startswith("linear.")}
    buffers = {name: value for name, value in network.state_dict().items() if name not in params_of(network)}
    fixed = {name: value.expand(len(chains), *value.shape) for name, value in (rest | buffers).items()}
    drawn = {f"linear.{name}": value for name, value in chains.params.items()}
    return Posterior(drawn | fixed, chains.chains, RESNET, chains.info)


def features(network: nn.Module, x: Tensor) -> Tensor:
    """What the last layer takes."""
    found: list[Tensor] = []
    handle = network.get_submodule("linear").register_forward_pre_hook(lambda _, inputs: found.append(inputs[0]))
    with torch.no_grad():
        for part in x.split(PIECE):
            network(part)
    handle.remove()
    return torch.cat(found)


def accuracies(posterior: Posterior, network: nn.Module) -> dict[str, Any]:
    """Clean accuracy of every draw and of their average."""
    x, labels = images("test", TEST)
    probabilities = []
    with torch.no_grad():
        for member in posterior.models(network):
            probabilities.append(torch.cat([member(part).softmax(-1) for part in x.split(PIECE)]))
    each = [(p.argmax(-1) == labels).double().mean().item() for p in probabilities]
    mean = torch.stack(probabilities).mean(0)
    return {
        "accuracy_of_draws": each,
        "accuracy_of_average": (mean.argmax(-1) == labels).double().mean().item(),
        "log_likelihood_of_average": mean.gather(1, labels[:, None]).log().mean().item(),
    }


def report(folder: Path, name: str, posterior: Posterior) -> None:
    """Write the draws, and beside them how good they are."""
    network = released(20)
    posterior = posterior if name == "all" else posterior.thin(max(1, posterior.chains[0] // 6))
    posterior.save(folder / f"cifar_resnet20_{name}.safetensors", dtype=torch.float16)
    trained = {name: value for name, value in network.state_dict().items() if name.endswith("weight")}
    relative = [((posterior[-1][name] - value).norm() / value.norm()).item() for name, value in trained.items()]
    found = {
        "test_images": TEST,
        "trained": accuracies(Posterior.of([network.state_dict()]), network),
        **accuracies(posterior, network),
        "distinct_draws": distinct_draws(posterior),
        "relative_distance_from_the_trained_weights": max(relative),
    }
    with atomic_path(folder / f"cifar_resnet20_{name}.json") as path:
        path.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["all", "head"])
    parser.add_argument("--runs", type=Path, default=RUNS / "cifar_released_posterior")
    parser.add_argument("--draws", type=int)
    parser.add_argument("--steps", type=int, default=Around.steps, help="minibatch steps to a draw")
    parser.add_argument("--temperature", type=float, default=Around.temperature)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    folder: Path = arguments.runs
    if arguments.what == "all":
        draws = arguments.draws or Around.draws
        chain = Around(draws=draws, steps=arguments.steps, temperature=arguments.temperature)
        posterior = chain.sample(folder / "all")
    else:
        posterior = sample_head(folder, draws=arguments.draws or HEAD_DRAWS)
    report(folder, arguments.what, posterior)


if __name__ == "__main__":
    main()
