"""Posterior samples of the parameters of a network; nothing here knows of matching."""

from shiftmatch.samplers.density import log_posterior
from shiftmatch.samplers.diagnostics import effective_size, split_rhat, summarise
from shiftmatch.samplers.empcov import ShiftEmpCov, empcov, empcov_equation, zellner_g
from shiftmatch.samplers.ensemble import deep_ensemble, sgd
from shiftmatch.samplers.haiku import import_hmc
from shiftmatch.samplers.hmc import LEAPFROG, TWO_STAGE, hmc
from shiftmatch.samplers.interface import FromFunction, LogDensity, Sampler
from shiftmatch.samplers.interop import from_laplace, from_models, from_state_dicts, from_states
from shiftmatch.samplers.posterior import Members, Posterior
from shiftmatch.samplers.preconditioning import fisher_scales
from shiftmatch.samplers.priors import correlated, gaussian, laplace, product, student_t
from shiftmatch.samplers.sampling import sample, sample_chains
from shiftmatch.samplers.sgld import constant, cyclical, sghmc, sgld
from shiftmatch.samplers.variational import mean_field

__all__ = [
    "LEAPFROG",
    "TWO_STAGE",
    "FromFunction",
    "LogDensity",
    "Members",
    "Posterior",
    "Sampler",
    "ShiftEmpCov",
    "constant",
    "correlated",
    "cyclical",
    "deep_ensemble",
    "effective_size",
    "empcov",
    "empcov_equation",
    "fisher_scales",
    "from_laplace",
    "from_models",
    "from_state_dicts",
    "from_states",
    "gaussian",
    "hmc",
    "import_hmc",
    "laplace",
    "log_posterior",
    "mean_field",
    "product",
    "sample",
    "sample_chains",
    "sgd",
    "sghmc",
    "sgld",
    "split_rhat",
    "student_t",
    "summarise",
    "zellner_g",
]
