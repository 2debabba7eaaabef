"""Posterior samples of the parameters of a network; nothing here knows of matching."""

from shiftmatch.samplers.density import log_posterior
from shiftmatch.samplers.hmc import hmc
from shiftmatch.samplers.posterior import Posterior
from shiftmatch.samplers.sampling import sample

__all__ = ["Posterior", "hmc", "log_posterior", "sample"]
