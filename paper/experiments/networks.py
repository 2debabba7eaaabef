"""The networks of the CIFAR-10 experiments: FRN ResNet-20s by SGD, SGLD, variational inference and published HMC.

They are trained when they are missing, kept below the data folder, and go on where a killed run stopped.
"""

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from paper.experiments.training import Descent, Langevin, MeanField, Training
from shiftmatch.data.inventory import load
from shiftmatch.errors import DataNotFoundError, InputError
from shiftmatch.models import Architecture
from shiftmatch.models.init import initialise
from shiftmatch.models.preprocessing import Preprocessing
from shiftmatch.samplers.density import log_posterior
from shiftmatch.samplers.params import Params
from shiftmatch.samplers.posterior import Posterior
from shiftmatch.samplers.priors import gaussian
from shiftmatch.samplers.sampling import sample
from shiftmatch.shapes import Images
from shiftmatch.utils.files import data_folder

Root = str | os.PathLike[str] | None
SGD, ENSEMBLE, SGLD, VI, HMC = KINDS = ("SGD", "ensemble", "SGLD", "VI", "HMC")
HE_GAIN = 2.0

preprocess = Preprocessing(mean=(0.49, 0.48, 0.44), std=(0.2, 0.2, 0.2))
"""What the published networks for CIFAR-10 were trained with."""


@dataclass(frozen=True)
class Networks:
    """Networks on the first `images` training images of CIFAR-10; the defaults are the published settings.

    SGLD and variational inference start from the first member of the ensemble, which is the SGD solution. `scale` and
    `threshold` are those that training starts with: of the normalisation before each sum, and of every normalisation.
    """

    images: int = 40_960
    batch: int = 80
    members: int = 50
    sgd: Descent = field(default_factory=Descent)
    sgld: Langevin = field(default_factory=Langevin)
    vi: MeanField = field(default_factory=MeanField)
    blocks: int = 3
    scale: float = 1.0
    threshold: float = 0.0
    seed: int = 0

    def posterior(self, kind: str, data: Root = None) -> Posterior:
        """The networks of a kind: SGD (one), ensemble, SGLD, VI, or HMC."""
        match kind:
            case "SGD":
                return self.member(0, data)
            case "ensemble":
                return Posterior.merge([self.member(index, data) for index in range(self.members)])
            case "SGLD":
                return self._trained("sgld", self.sgld, data, start=self.member(0, data)[0])
            case "VI":
                return self._trained("vi", self.vi, data, start=self.member(0, data)[0])
            case "HMC":
                return published_hmc(data)
        raise InputError(f"There are no {kind} networks; there are {', '.join(KINDS)}.")

    def member(self, index: int, data: Root = None) -> Posterior:
        """One network trained by SGD, from a start of its own."""
        return self._trained(f"sgd-{index}", self.sgd, data, seed=self.seed + index)

    @property
    def architecture(self) -> Architecture:
        """The network that the file of a posterior names."""
        return Architecture("resnet20_frn", {"blocks": self.blocks})

    def folder(self, data: Root = None) -> Path:
        """Where these networks are kept: every other way to train the first of them has a folder of its own."""
        same = _digest([self.batch, self.blocks, self.scale, self.threshold, self.seed, asdict(self.sgd)])
        return data_folder(data) / "networks" / f"resnet20_frn-{self.images}-images-{same}"

    def _trained(
        self, name: str, training: Training, data: Root, *, start: Params | None = None, seed: int | None = None
    ) -> Posterior:
        """What the file of that name and training holds, made first if there is none."""
        file = self.folder(data) / f"{name}-{_digest(asdict(training))}.safetensors"
        if not file.exists():
            generator = torch.Generator().manual_seed(self.seed if seed is None else seed)
            first: nn.Module | Params = start or self._initial(generator)
            prior, examples = gaussian(training.weight_decay), training_data(self.images, data)
            density = log_posterior(self.architecture.build(), examples, prior=prior, batch_size=self.batch)
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

    def _initial(self, generator: torch.Generator) -> nn.Module:
        network = initialise(self.architecture.build(), generator, gain=HE_GAIN)
        for name, parameter in network.named_parameters():
            if name.endswith("unit2.frn.gamma"):
                nn.init.constant_(parameter, self.scale)
            elif name.endswith("tau"):
                nn.init.constant_(parameter, self.threshold)
        return network


def training_data(count: int, data: Root = None) -> tuple[Images, Int64[Tensor, "n"]]:
    """The first training images of CIFAR-10, as the networks take them, and their labels."""
    train = load("cifar10", "train", root=data, limit=count)
    return preprocess(train.images[torch.arange(len(train))]), train.labels


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
