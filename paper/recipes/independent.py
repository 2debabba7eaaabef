"""Convergence as an independent library sees it: R-hat and effective sizes by ArviZ."""

import importlib
from typing import Any

import numpy as np
from torch import Tensor, nn

from shiftmatch.samplers.diagnostics import function_values
from shiftmatch.samplers.posterior import Posterior


def by_arviz(posterior: Posterior, x: Tensor, network: nn.Module | None = None) -> dict[str, float]:
    """Of the predicted probabilities for some images, and of log p, in the last draws of every chain."""
    array_stats: Any = importlib.import_module("arviz_stats.base").array_stats
    axes = {"chain_axis": 0, "draw_axis": 1}
    length = min(posterior.chains)
    log_density = np.array([info["trace"]["log_density"][-length:] for info in posterior.info["chains"]])
    values = function_values(posterior, x, network).flatten(2).double().numpy()
    values = values[..., np.ptp(values, axis=(0, 1)) > 0]  # some are 1 in every draw, as far as float32 can tell
    rhat = array_stats.rhat(values, method="rank", **axes)
    size = array_stats.ess(values, method="bulk", **axes)
    return {
        "rhat_median": float(np.median(rhat)),
        "rhat_max": float(np.max(rhat)),
        "effective_size_median": float(np.median(size)),
        "effective_size_min": float(np.min(size)),
        "rhat_log_density": float(array_stats.rhat(log_density, method="rank", **axes)),
        "effective_size_log_density": float(array_stats.ess(log_density, method="bulk", **axes)),
    }
