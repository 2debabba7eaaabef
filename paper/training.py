"""The networks of the CIFAR-10 experiments: FRN ResNet-20s by SGD, SGHMC, variational inference and published HMC.

They are trained when they are missing, kept below the data folder, and training resumes after an interruption. Members
that paper/recipes/cifar_frn.py has trained are in paper/networks.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from paper.run import Root
from shiftmatch.data.inventory import load
from shiftmatch.errors import DataNotFoundError, InputError
from shiftmatch.models import Architecture
from shiftmatch.models.layers import initialise
from shiftmatch.models.preprocessing import Preprocessing
from shiftmatch.samplers.density import LogDensity, log_posterior
from shiftmatch.samplers.posterior import Params, Posterior
from shiftmatch.samplers.priors import gaussian
from shiftmatch.samplers.sampling import Sampler, sample
from shiftmatch.samplers.sgld import sgd, sghmc
from shiftmatch.samplers.variational import mean_field
from shiftmatch.shapes import Images
from shiftmatch.utils.files import data_folder

SGD, ENSEMBLE, SGHMC, VI, HMC = KINDS = ("SGD", "ensemble", "SGHMC", "VI", "HMC")
"""Published: SGLD, which is SGHMC whose momentum is forgotten at every step."""

HE_GAIN = 2.0
SHIPPED = Path(__file__).parent / "networks"

preprocess = Preprocessing(mean=(0.49, 0.48, 0.44), std=(0.2, 0.2, 0.2))
"""What the published networks for CIFAR-10 were trained with."""


@dataclass(frozen=True)
class Descent:
    """SGD with momentum for `rounds` of `thin` steps; the rate, that of the mean loss, falls to 0 as a cosine.

    >>> Descent(rounds=10).burn_in, Descent().draws
    (9, 1)
    """

    thin: int = 512
    rounds: int = 500
    rate: float = 3e-7 * 40_960
    weight_decay: float = 10.0

    @property
    def burn_in(self) -> int:
        """All rounds but the last, whose end is the trained network."""
        return self.rounds - 1

    @property
    def draws(self) -> int:
        """One network comes out of a run."""
        return 1

    def sampler(self, density: LogDensity, images: int) -> Sampler[Any]:
        """The optimiser, for a log posterior over so many images."""
        return sgd(density, step_size=self.rate / images, steps=self.thin * self.rounds)


@dataclass(frozen=True)
class Langevin:
    """SGHMC with a constant step, which multiplies the gradient of the whole log posterior; SGLD without momentum.

    Parameters that the data say nothing about forget their start in (1 − decay) / (step_size · weight_decay) steps: a
    run of less than a few of those `relaxation` times samples a neighbourhood of the start, not the posterior. At a
    `temperature` below 1 the step is that times the temperature, and the noise smaller.
    """

    thin: int = 5120
    burn_in: int = 100
    draws: int = 900
    step_size: float = 1e-6
    decay: float = 0.0
    weight_decay: float = 5.0
    temperature: float = 1.0

    @property
    def relaxation(self) -> float:
        """Steps in which a parameter that only the prior speaks of forgets its start.

        >>> round(Langevin().relaxation)
        200000
        """
        return (1 - self.decay) / (self.step_size * self.weight_decay)

    def sampler(self, density: LogDensity, images: int) -> Sampler[Any]:
        """The sampler; its step does not depend on the number of images."""
        return sghmc(density, step_size=self.step_size * self.temperature, decay=self.decay)


@dataclass(frozen=True)
class MeanField:
    """Mean-field variational inference: a Gaussian is fitted with Adam for `burn_in` rounds, then drawn from."""

    thin: int = 512
    burn_in: int = 300
    draws: int = 50
    rate: float = 1e-4
    weight_decay: float = 5.0

    def sampler(self, density: LogDensity, images: int) -> Sampler[Any]:
        """The sampler; Adam's rate does not depend on the number of images."""
        return mean_field(density, step_size=self.rate, steps=self.thin * self.burn_in)


Training = Descent | Langevin | MeanField


@dataclass(frozen=True)
class Networks:
    """Networks on the first `images` training images of CIFAR-10; the defaults are the published settings.

    SGHMC starts from the first `chains` members of the ensemble, variational inference from the first, which is the
    SGD solution. `shipped` members are those of paper/networks, trained by paper/recipes/cifar_frn.py, instead of SGD
    as published.
    """

    images: int = 40_960
    batch: int = 80
    members: int = 50
    sgd: Descent = field(default_factory=Descent)
    sghmc: Langevin = field(default_factory=Langevin)
    chains: int = 1
    vi: MeanField | None = field(default_factory=MeanField)
    blocks: int = 3
    seed: int = 0
    shipped: bool = False

    def posterior(self, kind: str, data: Root = None) -> Posterior:
        """The networks of a kind: SGD (one), ensemble, SGHMC, VI, or HMC."""
        match kind:
            case "SGD":
                return self.member(0, data)
            case "ensemble":
                return Posterior.merge([self.member(index, data) for index in range(self.members)])
            case "SGHMC":
                return Posterior.merge([self._chain(index, data) for index in range(self.chains)])
            case "VI":
                if self.vi is None:
                    raise DataNotFoundError("A mean-field fit that is worth the name takes too long for this size.")
                return self._trained("vi", self.vi, data, start=self.member(0, data)[0])
            case "HMC":
                return published_hmc(data)
        raise InputError(f"There are no {kind} networks; there are {', '.join(KINDS)}.")

    def member(self, index: int, data: Root = None) -> Posterior:
        """One network trained by SGD, from a start of its own."""
        if self.shipped:
            return shipped_member(index)
        return self._trained(f"sgd-{index}", self.sgd, data, seed=self.seed + index)

    def _chain(self, index: int, data: Root) -> Posterior:
        start = self.member(index, data)[0]
        return self._trained(f"sghmc-{index}", self.sghmc, data, start=start, seed=self.seed + index)

    @property
    def architecture(self) -> Architecture:
        """The network that the file of a posterior names."""
        return Architecture("resnet20_frn", {"blocks": self.blocks})

    def folder(self, data: Root = None) -> Path:
        """Where these networks are kept: every other way to train the first of them has a folder of its own."""
        same = "shipped" if self.shipped else _digest([self.batch, self.blocks, self.seed, asdict(self.sgd)])
        return data_folder(data) / "networks" / f"resnet20_frn-{self.images}-images-{same}"

    def _trained(
        self, name: str, training: Training, data: Root, *, start: Params | None = None, seed: int | None = None
    ) -> Posterior:
        """What the file of that name and training holds, made first if there is none."""
        file = self.folder(data) / f"{name}-{_digest(asdict(training))}.safetensors"
        if not file.exists():
            generator = torch.Generator().manual_seed(self.seed if seed is None else seed)
            first: nn.Module | Params = start or initialise(self.architecture.build(), generator, gain=HE_GAIN)
            prior, examples = gaussian(training.weight_decay), training_data(self.images, data)
            temperature = training.temperature if isinstance(training, Langevin) else 1.0
            network = self.architecture.build()
            density = log_posterior(network, examples, prior=prior, batch_size=self.batch, temperature=temperature)
            drawn = sample(
                training.sampler(density, self.images),
                first,
                draws=training.draws,
                burn_in=training.burn_in,
                thin=training.thin,
                generator=generator,
                folder=file.with_suffix(""),
                architecture=self.architecture,
            )
            drawn.save(file)
        return Posterior.load(file)


def training_data(count: int, data: Root = None) -> tuple[Images, Int64[Tensor, "n"]]:
    """The first training images of CIFAR-10, as the networks take them, and their labels."""
    train = load("cifar10", "train", root=data, limit=count)
    return preprocess(train.images[torch.arange(len(train))]), train.labels


def shipped_member(index: int) -> Posterior:
    """A member that was trained by paper/recipes/cifar_frn.py and is kept in the repository."""
    if not (file := SHIPPED / f"resnet20_frn-{index}.safetensors").exists():
        raise DataNotFoundError(f"{file} does not exist. Train it with `python -m paper.recipes.cifar_frn {index}`.")
    return Posterior.load(file)


def hmc_file(data: Root = None) -> Path:
    """Where the published HMC samples are looked for."""
    return data_folder(data) / "networks" / "resnet20_frn_hmc.safetensors"


def published_hmc(data: Root = None) -> Posterior:
    """The HMC samples of Izmailov et al. (2021), once they have been converted."""
    if not (file := hmc_file(data)).exists():
        raise DataNotFoundError(
            f"{file} does not exist. HMC of this network takes thousands of hours; its published samples can be "
            f"fetched from gs://gresearch/bnn-posteriors/v1/hmc/cifar10 and converted with "
            f"`shiftmatch import-hmc state-*.pkl --network resnet20_frn --out {file}`."
        )
    return Posterior.load(file)


def _digest(settings: object) -> str:
    """A short name for settings, the same on every machine."""
    return hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:8]


NETWORKS = {
    "tiny": Networks(
        images=32,
        batch=4,
        members=2,
        sgd=Descent(thin=1, rounds=2, rate=0.01),
        sghmc=Langevin(thin=1, burn_in=1, draws=2),
        vi=MeanField(thin=1, burn_in=1, draws=2),
        blocks=1,
    ),
    "small": Networks(
        members=3,
        shipped=True,
        sghmc=Langevin(thin=20, burn_in=2, draws=4, step_size=3e-8, decay=0.9, temperature=0.02),
        chains=2,
        vi=None,
    ),
    "paper": Networks(),
}
"""Tiny is for tests; small has the members of paper/networks; paper has the published settings.

SGHMC of the size small stays near the trained members. A step of 2e-6 left 10 % accuracy after 40 steps, so the steps
that such a network allows are too small for two cores to forget the start."""
