"""How far a sampler moves in each direction: linear maps from the curvature of the likelihood.

A preconditioner is a linear map T. Positions move by T m and momenta by Tᵀ ∇log p, so the mass matrix is (T Tᵀ)⁻¹.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from shiftmatch.samplers.density import LogPosterior
from shiftmatch.samplers.posterior import Params

EXAMPLES = 500
"""Enough for a curvature that only sets the scale."""

MICRO_BATCH = 50
"""Examples whose separate gradients are held in memory at once."""


@runtime_checkable
class Preconditioner(Protocol):
    """T and its transpose, on tensors that have the names and shapes of the parameters."""

    def apply(self, momentum: Params) -> Params: ...
    def transpose(self, gradient: Params) -> Params: ...


@final
@dataclass(frozen=True, eq=False)
class Diagonal:
    """T = diag(scales): how far each parameter may move compared with the others.

    >>> Diagonal({"w": torch.tensor([1.0, 2.0])}).apply({"w": torch.ones(2)})
    {'w': tensor([1., 2.])}
    """

    scales: Params

    def apply(self, momentum: Params) -> Params:
        return {name: self.scales[name] * value for name, value in momentum.items()}

    def transpose(self, gradient: Params) -> Params:
        return self.apply(gradient)


@final
@dataclass(frozen=True, eq=False)
class Layerwise:
    """For each layer W ← (S ∘ Z) Qᵀ, with Q a basis of the layer's inputs and S a scale per output and basis vector.

    A bias is one more input. Parameters that are no weights of a layer have scales of their own.
    """

    scales: Params
    bases: Params

    def apply(self, momentum: Params) -> Params:
        moved = {name: (self.scales[name] * z) @ self.bases[name].mT for name, z in _by_layer(momentum)}
        return _by_parameter(moved, momentum)

    def transpose(self, gradient: Params) -> Params:
        moved = {name: self.scales[name] * (g @ self.bases[name]) for name, g in _by_layer(gradient)}
        return _by_parameter(moved, gradient)


def fisher_scales(density: LogPosterior, params: Params, generator: torch.Generator, *, precision: float) -> Diagonal:
    """(precision + F)^-½ with F the diagonal Fisher information, Σ_n E_y (∂ log p(y | x_n) / ∂θ)².

    These are the standard deviations of each parameter if all others were known.

    Args:
        density: what `log_posterior` returned.
        params: where F is computed.
        generator: draws the labels y.
        precision: of the prior.

    >>> from shiftmatch.samplers import log_posterior
    >>> density = log_posterior(torch.nn.Linear(2, 3), (torch.ones(4, 2), torch.tensor([0, 1, 2, 0])))
    >>> params = dict(density.model.named_parameters())
    >>> sorted(fisher_scales(density, params, torch.Generator(), precision=1.0).scales)
    ['bias', 'weight']
    """
    fisher = {name: torch.zeros_like(value) for name, value in params.items()}
    for gradients, weight in _gradients(density, params, generator, EXAMPLES):
        for name, values in gradients.items():
            fisher[name] += weight * values.square().sum(0)
    return Diagonal({name: ((precision + value) / density.temperature).rsqrt() for name, value in fisher.items()})


def layer_fisher(
    density: LogPosterior,
    draws: Sequence[Params],
    generator: torch.Generator,
    *,
    precision: float,
    input_precision: Mapping[str, Tensor] | None = None,
    examples: int = EXAMPLES,
) -> Layerwise:
    """(P + c_o A)^-½ for the weights into output o of a layer, from the Fisher information.

    A is the Fisher information summed over outputs, c_o the share of o, both averaged over `draws`. The inputs of a
    layer are correlated (after a ReLU they are all positive), which makes directions that few large steps survive;
    these are the same in every draw. P is the precision of the prior. On LeNet it allows steps about three times as
    long as `fisher_scales` does.

    Args:
        density: what `log_posterior` returned.
        draws: parameters that are about as far from the mode as the posterior is.
        generator: draws the labels.
        precision: of the prior, for every weight.
        input_precision: a matrix over the inputs of some weights, by their names, that is added to it.
        examples: images that are looked at.

    >>> from shiftmatch.samplers import log_posterior
    >>> density = log_posterior(torch.nn.Linear(2, 3), (torch.ones(4, 2), torch.tensor([0, 1, 2, 0])))
    >>> params = {name: value.detach() for name, value in density.model.named_parameters()}
    >>> type(layer_fisher(density, [params], torch.Generator(), precision=1.0)).__name__
    'Layerwise'
    """
    blocks: Params = {}
    shares: Params = {}
    each = max(1, examples // len(draws))
    for draw in draws:
        for gradients, weight in _gradients(density, draw, generator, each):
            for name, rows in _by_layer(gradients, leading=1):
                square = torch.einsum("noi,noj->ij", rows, rows).double() * weight / len(draws)
                share = rows.square().sum((0, 2)).double() * weight / len(draws)
                blocks[name] = blocks.get(name, 0.0) + square
                shares[name] = shares.get(name, 0.0) + share
    scales, bases = {}, {}
    for name, block in blocks.items():
        prior = precision * torch.eye(len(block), dtype=block.dtype, device=block.device)
        if input_precision and name in input_precision:
            size = len(input_precision[name])
            prior[:size, :size] += input_precision[name].to(prior)
        basis = torch.linalg.eigh(prior + block / len(shares[name])).eigenvectors
        along_prior, along_block = ((basis * (matrix @ basis)).sum(0) for matrix in (prior, block))
        total = along_prior + (shares[name] / shares[name].sum().clamp_min(1e-300))[:, None] * along_block
        like = draws[0][name]
        scales[name] = (total / density.temperature).rsqrt().to(like.dtype)
        bases[name] = basis.to(like.dtype)
    return Layerwise(scales, bases)


def _gradients(
    density: LogPosterior, params: Params, generator: torch.Generator, examples: int
) -> Iterator[tuple[Params, float]]:
    """∂ log p(y | x) / ∂θ for some examples, with y drawn from the network's own prediction, and their weight."""
    inputs = density.data[0]
    chosen = torch.randperm(len(inputs), generator=generator, device=generator.device)[:examples].to(inputs.device)
    per_example = vmap(grad(density.log_likelihood), (None, 0, 0))
    for batch in inputs[chosen].split(MICRO_BATCH):
        with torch.no_grad():
            probabilities = functional_call(density.model, params, (batch,)).softmax(-1).to(generator.device)
        labels = torch.multinomial(probabilities, 1, generator=generator).to(inputs.device)
        yield per_example(params, batch[:, None], labels), len(inputs) / len(chosen)


def _by_layer(params: Params, *, leading: int = 0) -> Iterator[tuple[str, Tensor]]:
    """One matrix (outputs, inputs) per layer, named after its weight, the bias being the last input."""
    for name, value in params.items():
        bias = _bias_of(name)
        if value.dim() - leading > 1:
            weight = value.flatten(leading + 1)
            yield name, torch.cat([weight, params[bias][..., None]], -1) if bias in params else weight
        elif not any(_bias_of(other) == name and x.dim() - leading > 1 for other, x in params.items()):
            yield name, value.reshape(*value.shape[:leading], -1, 1)


def _by_parameter(layers: Params, like: Params) -> Params:
    """The inverse of `_by_layer`."""
    split: Params = {}
    for name, matrix in layers.items():
        has_bias = like[name].dim() > 1 and _bias_of(name) in like
        split[name] = (matrix[:, :-1] if has_bias else matrix).reshape(like[name].shape)
        if has_bias:
            split[_bias_of(name)] = matrix[:, -1]
    return {name: split[name] for name in like}


def _bias_of(name: str) -> str:
    return name.removesuffix("weight") + "bias"
