"""How far each parameter may move: scales for a sampler, from the curvature of the likelihood."""

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from shiftmatch.samplers.density import LogPosterior
from shiftmatch.samplers.params import Params

EXAMPLES = 500
"""Enough for a diagonal that only sets the scale."""

CHUNK = 50
"""Examples whose separate gradients are held in memory at once."""


def fisher_scales(density: LogPosterior, params: Params, generator: torch.Generator, *, precision: float) -> Params:
    """(precision + F)^-½ with F the diagonal Fisher information, Σ_n E_y (∂ log p(y | x_n) / ∂θ)².

    `precision` is that of the prior: these are the standard deviations of each parameter if all others were known.
    """
    fisher = {name: torch.zeros_like(value) for name, value in params.items()}
    inputs = density.data[0]
    chosen = inputs[torch.randperm(len(inputs), generator=generator)[:EXAMPLES]]
    for batch in torch.split(chosen, CHUNK):
        for name, gradients in _gradients(density, params, batch, generator).items():
            fisher[name] += gradients.square().sum(0) * (len(inputs) / len(chosen))
    return {name: (precision + value).rsqrt() for name, value in fisher.items()}


def _gradients(density: LogPosterior, params: Params, inputs: Tensor, generator: torch.Generator) -> Params:
    """∂ log p(y | x) / ∂θ for every example, with y drawn from the network's own prediction."""
    with torch.no_grad():
        probabilities = functional_call(density.model, params, (inputs,)).softmax(-1)
    labels = torch.multinomial(probabilities, 1, generator=generator)
    per_example = vmap(grad(density.log_likelihood), (None, 0, 0))
    gradients: Params = per_example(params, inputs[:, None], labels)
    return gradients
