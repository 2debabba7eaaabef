"""Settings that belong together under one name."""

from dataclasses import dataclass, field

from shiftmatch.core.covariance import Covariance, SpatialKronecker, Spectrum
from shiftmatch.core.linalg import EigenvalueFloor, Regularisation
from shiftmatch.errors import InputError
from shiftmatch.matching.batchnorm import BatchNormMode
from shiftmatch.matching.sites import Site


@dataclass(frozen=True)
class Preset:
    """What `fit` does where it is not told otherwise; the input may have a covariance of its own.

    Args:
        covariance: the structure at every site.
        input_covariance: the structure at the input, if it is another.
        batchnorm: "eval" (running statistics) or "batch" (those of the batch).

    >>> Preset().covariance
    Spectrum(basis='dct', floor=0.0001)
    """

    covariance: Covariance = field(default_factory=Spectrum)
    input_covariance: Covariance | None = None
    batchnorm: BatchNormMode = "eval"

    def covariance_at(self, site: Site) -> Covariance:
        """The structure at a site."""
        return self.input_covariance if site.is_input and self.input_covariance else self.covariance


def paper(*, pixel_std: float = 1.0) -> Preset:
    """The published method: rows, then columns, with the constants of the authors' code and BatchNorm on the batch.

    Their floor at the input, 1e-3, is meant for pixels in [0, 1].

    Args:
        pixel_std: what pixels from 0 to 1 are divided by before they enter the network.

    >>> paper().batchnorm, paper().covariance.regularisation.test
    ('batch', EigenvalueFloor(jitter=0.001, rtol=..., atol=1e-08))
    """
    train = EigenvalueFloor(rtol=0.0, atol=1e-8)
    inner = Regularisation(test=EigenvalueFloor(jitter=1e-3, rtol=0.0, atol=1e-8), train=train)
    at_input = Regularisation(test=EigenvalueFloor(rtol=0.0, atol=1e-3 / pixel_std**2), train=train)
    return Preset(SpatialKronecker(inner), SpatialKronecker(at_input), "batch")


PRESETS = {"default": Preset(), "paper": paper()}


def preset_named(preset: str | Preset) -> Preset:
    """The preset of that name, or the one given."""
    if isinstance(preset, Preset):
        return preset
    if preset not in PRESETS:
        raise InputError(f"There is no preset {preset!r}; choose one of {', '.join(PRESETS)}, or pass a Preset.")
    return PRESETS[preset]
