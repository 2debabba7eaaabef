"""Has the chain converged, and how many independent draws is it worth? Asked of function values, not of weights."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from shiftmatch.errors import InputError
from shiftmatch.samplers.density import LogDensity
from shiftmatch.samplers.posterior import Posterior, inner

MIN_DRAWS = 4
"""Of each chain; R̂ cuts it in half, and a half needs a variance."""

GOOD_RHAT = 1.1
MAX_STANDARD_ERRORS = 4.0
"""How far the virial may be from the number of parameters before the summary speaks of it."""

Chains = Float[Tensor, "m n *values"]
"""Some values in every draw n of every chain m."""


def split_rhat(values: Chains) -> Float[Tensor, "*values"]:
    """R̂ = √(((n−1)/n W + B/n) / W) over the halves of every chain, of normal scores and of folded ones, the larger.

    W is the mean variance within the halves and B/n the variance between their means (Gelman & Rubin 1992); ranks make
    it valid for heavy tails, and folding, |x − median|, shows chains that differ in spread (Vehtari et al. 2021).
    Chains that are stuck at different values have R̂ = ∞; what is constant over all draws has 1, what is NaN NaN.

    Args:
        values: chains × draws × anything.

    >>> draws = torch.randn(4, 1000, generator=torch.Generator().manual_seed(0))
    >>> bool(split_rhat(draws) < 1.01), bool(split_rhat(draws + torch.arange(4.0)[:, None]) > 1.5)
    (True, True)
    >>> split_rhat(torch.tensor([[1.0] * 4, [2.0] * 4])).item()
    inf
    """
    halves = _halves(values)
    folded = (halves - halves.flatten(0, 1).quantile(0.5, dim=0)).abs()
    rhat = torch.maximum(_rhat(_normal_scores(halves)), _rhat(_normal_scores(folded)))
    return rhat.masked_fill(_has_nan(values), math.nan).to(values.dtype)


def effective_size(values: Chains, *, ranks: bool = True) -> Float[Tensor, "*values"]:
    """M N / τ, τ = 1 + 2 Σ_t ρ_t: how many independent draws would be as good; the "bulk ESS" of ArviZ and Stan.

    The autocorrelations ρ are those of normal scores over the halves of the chains, summed over Geyer's initial
    monotone sequence of positive pairs (Geyer 1992; Vehtari et al. 2021). τ is no less than 1 / log₁₀(M N), so that
    antithetic draws may count for more than their number, but not for infinitely many.

    Args:
        values: chains × draws × anything.
        ranks: whether to take normal scores; without, it is the size that belongs to the standard error of the mean.

    >>> draws = torch.randn(4, 500, generator=torch.Generator().manual_seed(0))
    >>> 1500 < effective_size(draws).item() < 2500
    True
    """
    halves = _halves(values)
    scores = _normal_scores(halves) if ranks else halves.double()
    m, n = scores.shape[:2]
    centred = scores - scores.mean(1, keepdim=True)
    spectrum = torch.fft.rfft(centred, 2 * n, dim=1)
    lags = torch.fft.irfft(spectrum.abs().square(), 2 * n, dim=1)[:, :n].mean(0) / n
    within = lags[0] * n / (n - 1)
    pooled = lags[0] + scores.mean(1).var(0)
    constant = (scores.amax((0, 1)) == scores.amin((0, 1))) | (pooled == 0)
    rho = 1 - (within - lags) / torch.where(constant, 1.0, pooled)
    rho[0] = 1.0
    pairs = max(1, (n - 1) // 2)  # with the last one counted by half only
    even, odd = rho[0 : 2 * pairs : 2], rho[1 : 2 * pairs : 2]
    both = even[: len(odd)] + odd
    positive = (both > 0).cumprod(0)
    positive[-1] = 0
    summed = (both.cummin(0).values * positive).sum(0)
    first_left_out = even.gather(0, positive.sum(0, keepdim=True))[0].clamp_min(0)
    tau = (2 * summed - 1 + first_left_out).clamp_min(1 / math.log10(m * n))
    size = torch.where(constant, float(m * n), m * n / tau)
    return size.masked_fill(_has_nan(values), math.nan).to(values.dtype)


class Virial(NamedTuple):
    """The mean of −θ·∇log p(θ), its standard error, and what it is under the posterior: the number of parameters."""

    mean: float
    stderr: float
    dimension: int

    @property
    def standard_errors(self) -> float:
        """How many standard errors the mean is away from the number of parameters."""
        return (self.mean - self.dimension) / self.stderr if self.stderr > 0 else math.inf


def virial(posterior: Posterior, log_density: LogDensity, generator: torch.Generator | None = None) -> Virial:
    """E[θ·∇U(θ)] = d for U = −log p and d parameters: a check of stationarity that needs no second chain.

    It follows from ∫ ∇·(θ p) dθ = 0 and holds for every density that falls off fast enough. Before the chain has
    reached the typical set, the mean is off by many standard errors. One gradient per draw.

    Args:
        posterior: the draws.
        log_density: what they were drawn from.
        generator: for a density that draws minibatches.

    >>> from shiftmatch.samplers.density import FromFunction
    >>> normal = FromFunction(lambda params: -params["x"].square().sum() / 2)
    >>> seeded = torch.Generator().manual_seed(0)
    >>> right = Posterior.of([{"x": torch.randn(100, generator=seeded)} for _ in range(50)])
    >>> found = virial(right, normal)
    >>> found.dimension, abs(found.standard_errors) < 3
    (100, True)
    """
    generator = generator or torch.Generator()
    values = [-inner(draw, log_density.value_and_grad(draw, generator)[1]).item() for draw in posterior]
    length, ends = min(posterior.chains), torch.tensor(posterior.chains).cumsum(0).tolist()
    return _virial([values[end - length : end] for end in ends], sum(x.numel() for x in posterior[0].values()))


def distinct_draws(posterior: Posterior) -> int:
    """How many draws differ from the one before in their chain; a rejected proposal repeats it.

    Args:
        posterior: the draws.

    >>> distinct_draws(Posterior.of([{"w": torch.tensor([x])} for x in (1.0, 1.0, 2.0)]))
    2
    """
    chains = posterior.by_chain()
    changes = [torch.stack([_changes(values) for values in chain.params.values()]).any(0) for chain in chains]
    return len(chains) + sum(int(moved.sum()) for moved in changes)


def function_values(posterior: Posterior, images: Tensor, template: nn.Module | None = None) -> Chains:
    """Class probabilities for `images` in every draw; chains longer than the shortest are cut to its last draws."""
    length = min(posterior.chains)
    chains = [chain[len(chain) - length :] for chain in posterior.by_chain()]
    with torch.no_grad():
        probabilities = [[model(images).softmax(-1) for model in chain.models(template)] for chain in chains]
    return torch.stack([torch.stack(chain) for chain in probabilities])


def summarise(posterior: Posterior, images: Tensor, template: nn.Module | None = None) -> dict[str, Any]:
    """R̂ and effective size of the predicted probabilities and of log p; distinct draws, acceptance, energy error and
    the virial of the kept draws, as far as the sampler recorded them.

    Args:
        posterior: the draws.
        images: for which probabilities are predicted.
        template: the network, if the posterior does not name it.

    >>> draws = [{"weight": torch.randn(2, 4)} for _ in range(8)]
    >>> found = summarise(Posterior.of(draws), torch.ones(3, 4), nn.Linear(4, 2, bias=False))
    >>> found["distinct_draws"]
    8
    """
    values = function_values(posterior, images, template)
    rhat, size = split_rhat(values).flatten(), effective_size(values).flatten()
    found = {
        "chains": list(posterior.chains),
        "distinct_draws": distinct_draws(posterior),
        "rhat_median": rhat.median().item(),
        "rhat_max": rhat.max().item(),
        "rhat_below_1.1": (rhat < GOOD_RHAT).double().mean().item(),
        "effective_size_median": size.median().item(),
    }
    traces = {name: _trace(posterior, name) for name in ("acceptance", "accepted", "energy_error")}
    found |= {name: torch.tensor(rows).abs().mean().item() for name, rows in traces.items() if rows}
    if rows := _trace(posterior, "log_density"):
        found["rhat_log_density"] = split_rhat(torch.tensor(rows, dtype=torch.float64)).item()
        found["effective_size_log_density"] = effective_size(torch.tensor(rows, dtype=torch.float64)).item()
    if rows := _trace(posterior, "virial"):
        found["virial"] = _virial(rows, sum(x.numel() for x in posterior[0].values()))._asdict()
    return found


def convergence_summary(posterior: Posterior, images: Tensor, network: nn.Module | None = None) -> str:
    """What the chains say of themselves, judged by their predictions for some images.

    Args:
        posterior: the draws.
        images: for which probabilities are predicted.
        network: the network, if the posterior does not name it.

    >>> network = nn.Linear(4, 2, bias=False)
    >>> convergence_summary(Posterior.of([{"weight": torch.ones(2, 4)}]), torch.ones(3, 4), network)
    'Too few draws to say whether they have converged: 4 or more of each chain are needed.'
    >>> convergence_summary(Posterior.of([{"weight": torch.ones(2, 4)}] * 5), torch.ones(3, 4), network)
    'All 5 draws are the same: every proposal was rejected. Use a smaller step size, or tune it for longer.'
    """
    if min(posterior.chains) < MIN_DRAWS:
        return f"Too few draws to say whether they have converged: {MIN_DRAWS} or more of each chain are needed."
    distinct, chains = distinct_draws(posterior), len(posterior.chains)
    if distinct == chains:
        which = f"All {len(posterior)} draws are the same" if chains == 1 else "Each chain has one draw, repeated"
        return f"{which}: every proposal was rejected. Use a smaller step size, or tune it for longer."
    found = summarise(posterior, images, network)
    if math.isnan(found["rhat_median"]):
        return "Some predictions are NaN: the chain has diverged. Use a smaller step size."
    parts = [
        f"R-hat {found['rhat_median']:.2f} (median over predictions; below {GOOD_RHAT} is good), worth "
        f"{found['effective_size_median']:.0f} independent draws ({distinct} of {len(posterior)} are distinct)"
    ]
    if "acceptance" in found:
        parts.append(f"acceptance {found['acceptance']:.2f}")
    if "virial" in found:
        check = Virial(**found["virial"])
        parts.append(f"E[θ·∇U] {check.mean:.0f} ± {check.stderr:.0f}, at stationarity {check.dimension}")
        if abs(check.standard_errors) > MAX_STANDARD_ERRORS:
            parts.append("so the chain has not arrived: draw longer")
    return ", ".join(parts) + "."


def _virial(chains: Sequence[Sequence[float]], dimension: int) -> Virial:
    values = torch.tensor(chains, dtype=torch.float64)
    if values.shape[1] < MIN_DRAWS:
        return Virial(values.mean().item(), math.inf, dimension)
    size = effective_size(values, ranks=False)
    return Virial(values.mean().item(), (values.std() / size.sqrt()).item(), dimension)


def _changes(values: Shaped[Tensor, "n *shape"]) -> Bool[Tensor, "_"]:
    """Whether each draw but the first differs from the one before; a buffer may be a single number."""
    return (values[1:] != values[:-1]).reshape(len(values) - 1, values[0].numel()).any(1)


def _trace(posterior: Posterior, name: str) -> list[list[float]]:
    """What the sampler recorded of the kept draws, chain by chain, cut to the shortest."""
    rows = [info.get("trace", {}).get(name, [])[info.get("burn_in", 0) :] for info in posterior.infos]
    length = min(map(len, rows))
    return [row[len(row) - length :] for row in rows] if length else []


def _rhat(halves: Chains) -> Float[Tensor, "*values"]:
    within, between, n = halves.var(1).mean(0), halves.mean(1).var(0), halves.shape[1]
    ratio = ((n - 1) / n * within + between) / within
    return torch.where(within > 0, ratio.sqrt(), torch.where(between > 0, math.inf, 1.0))


def _normal_scores(values: Chains) -> Chains:
    """Φ⁻¹((rank − 3/8) / (S + 1/4)) among all S draws, ties having their mean rank."""
    flat = values.double().flatten(0, 1).movedim(0, -1).contiguous()
    ordered = flat.sort(-1).values
    rank = (torch.searchsorted(ordered, flat) + torch.searchsorted(ordered, flat, right=True) + 1).double() / 2
    scores: Tensor = torch.special.ndtri((rank - 0.375) / (flat.shape[-1] + 0.25))
    return scores.movedim(-1, 0).reshape(values.shape)


def _has_nan(values: Chains) -> Bool[Tensor, "*values"]:
    return values.isnan().flatten(0, 1).any(0)


def _halves(values: Chains) -> Float[Tensor, "m2 n2 *values"]:
    half = values.shape[1] // 2
    if values.shape[1] < MIN_DRAWS:
        raise InputError(f"R̂ needs at least {MIN_DRAWS} draws of each chain; there are {values.shape[1]}.")
    return torch.cat([values[:, :half], values[:, -half:]])
