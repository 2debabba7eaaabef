"""Has the chain converged, and how many independent draws is it worth? Asked of function values, not of weights."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from shiftmatch.errors import InputError
from shiftmatch.samplers.posterior import Posterior

FEWEST_DRAWS = 4
"""Of each chain; R̂ cuts it in half, and a half needs a variance."""

Chains = Float[Tensor, "m n *values"]
"""Some values in every draw n of every chain m."""


def split_rhat(values: Chains) -> Float[Tensor, "*values"]:
    """Gelman & Rubin's R̂ = √(((n−1)/n W + B/n) / W) with every chain cut in half, so that a drift shows too.

    W is the mean variance within the halves and B/n the variance between their means; constants have R̂ = 1.

    >>> draws = torch.randn(4, 1000, generator=torch.Generator().manual_seed(0))
    >>> bool(split_rhat(draws) < 1.01), bool(split_rhat(draws + torch.arange(4.0)[:, None]) > 1.5)
    (True, True)
    """
    halves = _halves(values)
    within = halves.var(1).mean(0)
    n = halves.shape[1]
    pooled = (n - 1) / n * within + halves.mean(1).var(0)
    return torch.where(within > 0, (pooled / within).sqrt(), 1.0)


def effective_size(values: Chains) -> Float[Tensor, "*values"]:
    """M N / (1 + 2 Σ_t ρ_t), the sum cut where a pair of neighbouring ρ is no longer positive (Geyer 1992).

    >>> draws = torch.randn(4, 500, generator=torch.Generator().manual_seed(0))
    >>> 1500 < effective_size(draws).item() < 2500
    True
    """
    m, n = values.shape[:2]
    centred = (values - values.mean(1, keepdim=True)).double()
    lags = [(centred[:, : n - t] * centred[:, t:]).sum(1).mean(0) / n for t in range(n)]
    within = lags[0] * n / (n - 1)
    pooled = lags[0] + (values.double().mean(1).var(0) if m > 1 else 0.0)
    rho = torch.stack([1 - (within - lag) / pooled.clamp_min(torch.finfo(torch.float64).tiny) for lag in lags])
    pairs = rho[: n // 2 * 2].reshape(n // 2, 2, *rho.shape[1:]).sum(1)
    positive = (pairs > 0).cumprod(0)
    return (m * n / (2 * (pairs * positive).sum(0) - 1)).clamp(max=m * n).to(values.dtype)


def function_values(posterior: Posterior, images: Tensor, template: nn.Module | None = None) -> Chains:
    """Class probabilities for `images` in every draw; chains longer than the shortest are cut to its last draws."""
    length = min(posterior.chains)
    chains = [chain[len(chain) - length :] for chain in posterior.by_chain()]
    with torch.no_grad():
        probabilities = [[model(images).softmax(-1) for model in chain.models(template)] for chain in chains]
    return torch.stack([torch.stack(chain) for chain in probabilities])


def summarise(posterior: Posterior, images: Tensor, template: nn.Module | None = None) -> dict[str, Any]:
    """R̂ and effective size of the predicted probabilities, with acceptance and energy error of the kept draws."""
    values = function_values(posterior, images, template)
    rhat, size = split_rhat(values).flatten(), effective_size(values).flatten()
    return {
        "chains": list(posterior.chains),
        "rhat_median": rhat.median().item(),
        "rhat_mean": rhat.mean().item(),
        "rhat_below_1.1": (rhat < 1.1).double().mean().item(),
        "effective_size_median": size.median().item(),
        **_traces(posterior),
    }


def _traces(posterior: Posterior) -> dict[str, float]:
    chains: Sequence[Any] = posterior.info.get("chains", [posterior.info])
    found = {
        name: [value for chain in chains for value in chain.get("trace", {}).get(name, [])[chain.get("burn_in", 0) :]]
        for name in ("acceptance", "accepted", "energy_error")
    }
    return {name: torch.tensor(values).abs().mean().item() for name, values in found.items() if values}


def _halves(values: Chains) -> Float[Tensor, "m2 n2 *values"]:
    half = values.shape[1] // 2
    if values.shape[1] < FEWEST_DRAWS:
        raise InputError(f"R̂ needs at least {FEWEST_DRAWS} draws of each chain; there are {values.shape[1]}.")
    return torch.cat([values[:, :half], values[:, -half:]])
