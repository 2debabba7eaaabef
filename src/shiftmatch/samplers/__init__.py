"""Posterior samples of the parameters of a network; nothing here knows of matching."""

from shiftmatch.samplers.density import FromFunction, LogDensity, log_posterior
from shiftmatch.samplers.diagnostics import (
    convergence_summary,
    distinct_draws,
    effective_size,
    split_rhat,
    summarise,
    virial,
)
from shiftmatch.samplers.hmc import LEAPFROG, TWO_STAGE, hmc
from shiftmatch.samplers.interop import from_laplace, from_models, from_state_dicts, from_states, import_hmc
from shiftmatch.samplers.posterior import Posterior, params_of
from shiftmatch.samplers.preconditioning import fisher_scales, layer_fisher
from shiftmatch.samplers.priors import (
    ShiftEmpCov,
    correlated,
    empcov,
    empcov_equation,
    gaussian,
    laplace,
    patch_covariance,
    product,
    student_t,
    zellner_g,
)
from shiftmatch.samplers.sampling import Sampler, sample, sample_chains
from shiftmatch.samplers.sgld import constant, cyclical, deep_ensemble, sgd, sghmc, sgld
from shiftmatch.samplers.variational import mean_field

__all__ = [
    "LEAPFROG",
    "TWO_STAGE",
    "FromFunction",
    "LogDensity",
    "Posterior",
    "Sampler",
    "ShiftEmpCov",
    "constant",
    "convergence_summary",
    "correlated",
    "cyclical",
    "deep_ensemble",
    "distinct_draws",
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
    "layer_fisher",
    "log_posterior",
    "mean_field",
    "params_of",
    "patch_covariance",
    "product",
    "sample",
    "sample_chains",
    "sgd",
    "sghmc",
    "sgld",
    "split_rhat",
    "student_t",
    "summarise",
    "virial",
    "zellner_g",
]
