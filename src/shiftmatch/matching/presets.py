"""Settings that belong together under one name."""

from dataclasses import dataclass, field

from shiftmatch.core.covariance import Covariance, SpatialKronecker, Tolerance
from shiftmatch.core.linalg import Ridge
from shiftmatch.errors import InputError
from shiftmatch.matching.site import Site
from shiftmatch.matching.statistics import BatchNormMode


@dataclass(frozen=True)
class Preset:
    """What `fit` does where it is not told otherwise."""

    covariance: Covariance = field(default_factory=SpatialKronecker)
    input_tolerance: Tolerance = field(default_factory=Tolerance)
    batchnorm: BatchNormMode = "eval"

    def covariance_at(self, site: Site) -> Covariance:
        """The structure at a site: the input may have its own tolerance."""
        return type(self.covariance)(tolerance=self.input_tolerance) if site.is_input else self.covariance


def paper(*, pixel_std: float = 1.0) -> Preset:
    """The constants of the authors' code, with BatchNorm on batch statistics as in the paper.

    Their floor at the input, 1e-3, is meant for pixels in [0, 1]; for a network whose input is divided by a
    standard deviation, `pixel_std` says which.
    """
    train = Ridge(rtol=0.0, atol=1e-8)
    inner = Tolerance(test=Ridge(jitter=1e-3, rtol=0.0, atol=1e-8), train=train)
    at_input = Tolerance(test=Ridge(rtol=0.0, atol=1e-3 / pixel_std**2), train=train)
    return Preset(SpatialKronecker(inner), at_input, "batch")


PRESETS = {"default": Preset(), "paper": paper()}


def preset_named(preset: str | Preset) -> Preset:
    """The preset of that name, or the one given."""
    if isinstance(preset, Preset):
        return preset
    if preset not in PRESETS:
        raise InputError(f"There is no preset {preset!r}; choose one of {', '.join(PRESETS)}, or pass a Preset.")
    return PRESETS[preset]
