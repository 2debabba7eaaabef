"""How networks come by their weights: samplers with their settings, counted in rounds; a kill loses one round."""

from dataclasses import dataclass
from typing import Any

from shiftmatch.samplers.density import LogDensity
from shiftmatch.samplers.ensemble import sgd
from shiftmatch.samplers.sampling import Sampler
from shiftmatch.samplers.sgld import sgld
from shiftmatch.samplers.variational import mean_field


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
    """SGLD with a constant step, which multiplies the gradient of the whole log posterior."""

    thin: int = 5120
    burn_in: int = 100
    draws: int = 900
    step_size: float = 1e-6
    weight_decay: float = 5.0

    def sampler(self, density: LogDensity, images: int) -> Sampler[Any]:
        """The sampler; its step does not depend on the number of images."""
        return sgld(density, step_size=self.step_size)


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
