"""A posterior for a user's own network and data, with the same settings for all samplers."""

import copy
from dataclasses import dataclass
from os import PathLike
from typing import Any

import torch
from torch import nn

from shiftmatch.errors import InputError
from shiftmatch.models import Architecture
from shiftmatch.models.layers import initialise
from shiftmatch.samplers.density import Data, LogPosterior, log_posterior
from shiftmatch.samplers.hmc import hmc
from shiftmatch.samplers.posterior import Posterior, params_of
from shiftmatch.samplers.priors import gaussian
from shiftmatch.samplers.sampling import Sampler, sample_chains
from shiftmatch.samplers.sgld import deep_ensemble, sghmc, sgld
from shiftmatch.samplers.variational import mean_field

ENSEMBLE = "ensemble"
METHODS = ("hmc", "sgld", "sghmc", "vi", ENSEMBLE)

LOOKED_AT = 500
"""Images whose predictions tell whether chains have converged."""


@dataclass(frozen=True)
class Inference:
    """How a posterior is drawn.

    `step_size` is HMC's first step, which is tuned in the burn-in; Adam's for VI, which is fitted in the burn-in; for
    the others the learning rate of the mean loss. `steps` are the steps to a draw, of `batch` images each (HMC takes
    all images, for a time `trajectory`). The prior of every parameter is N(0, 1 / weight_decay). `draws` and `burn_in`
    are those of each chain. `parameters` are names or patterns of those to sample, such as "fc.*" for HMC of the last
    layer of a trained network; the others stay as they are. A `temperature` below 1 keeps draws near its weights.

    >>> data = torch.randn(20, 4), torch.arange(20) % 2
    >>> len(Inference(method="sgld", draws=3, burn_in=1, steps=2, batch=5).run(nn.Linear(4, 2), data))
    3
    >>> last = Inference(draws=3, burn_in=1, parameters="1.*", temperature=0.1)
    >>> list(last.run(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), data).params)
    ['1.weight', '1.bias']
    """

    method: str = "hmc"
    draws: int = 20
    burn_in: int = 20
    step_size: float = 1e-3
    trajectory: float = 0.1
    steps: int = 100
    batch: int = 100
    weight_decay: float = 100.0
    seed: int = 0
    chains: int = 1
    temperature: float = 1.0
    parameters: str | tuple[str, ...] = "*"

    def run(
        self,
        network: nn.Module,
        data: Data,
        *,
        folder: str | PathLike[str] | None = None,
        architecture: Architecture | None = None,
        across_processes: bool = False,
    ) -> Posterior:
        """Draw, the first chain from the weights that `network` has, the others and the members of an ensemble from
        weights drawn anew. BatchNorm uses its running moments. With a `folder`, the same call resumes after an
        interruption; with `across_processes` chains and members are spread over those of torch.distributed.
        """
        network = copy.deepcopy(network).eval()
        if self.method == ENSEMBLE:
            if self.parameters != "*":
                raise InputError(f"An ensemble is of whole networks; leave out parameters={self.parameters!r}.")
            return deep_ensemble(
                self.density(network, data, self.batch),
                lambda own: initialise(copy.deepcopy(network), own),
                members=self.draws,
                step_size=self.step_size / len(data[0]),
                steps=self.steps,
                seed=self.seed,
                folder=folder,
                architecture=architecture,
                across_processes=across_processes,
            )
        generators = (torch.Generator().manual_seed(self.seed + index) for index in range(1, self.chains))
        fresh = (initialise(copy.deepcopy(network), generator) for generator in generators)
        return sample_chains(
            self.sampler(network, data),
            [params_of(start, self.parameters) for start in (network, *fresh)],
            draws=self.draws,
            burn_in=self.burn_in,
            thin=1 if self.method == "hmc" else self.steps,
            seed=self.seed,
            folder=folder,
            architecture=architecture,
            across_processes=across_processes,
        )

    def sampler(self, network: nn.Module, data: Data) -> Sampler[Any]:
        """The sampler of the method, unless that is an ensemble."""
        density = self.density(network, data, None if self.method == "hmc" else self.batch)
        rate = self.step_size / len(data[0])
        match self.method:
            case "hmc":
                return hmc(density, step_size=self.step_size, trajectory=self.trajectory, tune=self.burn_in)
            case "sgld":
                return sgld(density, step_size=rate)
            case "sghmc":
                return sghmc(density, step_size=rate)
            case "vi":
                return mean_field(density, step_size=self.step_size, steps=self.burn_in * self.steps)
        raise InputError(f"There is no method {self.method!r}; choose {', '.join(METHODS)}.")

    def density(self, network: nn.Module, data: Data, batch: int | None) -> LogPosterior:
        """The log posterior, of all the data or of minibatches."""
        size = None if batch is None else min(batch, len(data[0]))
        prior = gaussian(self.weight_decay)
        return log_posterior(network, data, prior=prior, batch_size=size, temperature=self.temperature)
