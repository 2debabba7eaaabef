"""The log posterior of a network, from a likelihood and a prior, over all the data or over random minibatches."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from shiftmatch.errors import InputError
from shiftmatch.samplers.interface import FromFunction
from shiftmatch.samplers.params import Params, Scalar, add_scaled
from shiftmatch.samplers.priors import Prior, gaussian

Data = tuple[Tensor, Tensor]
Likelihood = Callable[[Tensor, Tensor], Tensor]
"""(outputs of the network, targets) -> Σ log p(target | output)."""

CHUNK = 200
"""Images per piece of a full-batch gradient: measured fastest on CPU, because a piece stays in the cache."""


def categorical(logits: Float[Tensor, "b k"], labels: Tensor) -> Scalar:
    """Σ log softmax(logits)[label].

    >>> categorical(torch.zeros(3, 4), torch.tensor([0, 1, 2])).item() == -3 * torch.tensor(4.0).log().item()
    True
    """
    return -functional.cross_entropy(logits, labels, reduction="sum")


@dataclass(frozen=True)
class LogPosterior:
    """log p(θ | data) = (Σ log p(y | f(x; θ)) + log p(θ)) / T, up to a constant.

    With a batch size, the sum over the data is estimated from a minibatch drawn without replacement.
    """

    model: nn.Module
    data: Data
    likelihood: Likelihood
    prior: Prior
    temperature: float
    batch_size: int | None
    chunk: int

    def value_and_grad(self, params: Params, generator: torch.Generator) -> tuple[Scalar, Params]:
        value, gradient = FromFunction(self.prior).value_and_grad(params, generator)
        inputs, targets, weight = self._batch(generator)
        for x, y in zip(torch.split(inputs, self.chunk), torch.split(targets, self.chunk), strict=True):
            term = FromFunction(partial(self.log_likelihood, inputs=x, targets=y))
            piece_value, piece_gradient = term.value_and_grad(params, generator)
            value, gradient = value + weight * piece_value, add_scaled(gradient, weight, piece_gradient)
        return value / self.temperature, {name: g / self.temperature for name, g in gradient.items()}

    def log_likelihood(self, params: Params, inputs: Tensor, targets: Tensor) -> Scalar:
        """Σ log p(y | f(x; θ)) over the given examples."""
        return self.likelihood(functional_call(self.model, params, (inputs,)), targets)

    def _batch(self, generator: torch.Generator) -> tuple[Tensor, Tensor, float]:
        inputs, targets = self.data
        if self.batch_size is None:
            return inputs, targets, 1.0
        chosen = torch.randperm(len(inputs), generator=generator)[: self.batch_size]
        return inputs[chosen], targets[chosen], len(inputs) / self.batch_size


def log_posterior(
    model: nn.Module,
    data: Data,
    *,
    prior: Prior | None = None,
    prior_scale: float = 1.0,
    likelihood: Likelihood = categorical,
    temperature: float = 1.0,
    batch_size: int | None = None,
    chunk: int = CHUNK,
) -> LogPosterior:
    """The log posterior of `model` given (inputs, targets); without a prior, N(0, prior_scale² I) on every parameter.

    >>> density = log_posterior(nn.Linear(2, 3), (torch.ones(4, 2), torch.tensor([0, 1, 2, 0])))
    >>> value, gradient = density.value_and_grad(dict(density.model.named_parameters()), torch.Generator())
    >>> sorted(gradient)
    ['bias', 'weight']
    """
    inputs, targets = data
    if len(inputs) != len(targets):
        raise InputError(f"Every input needs one target; there are {len(inputs)} inputs and {len(targets)} targets.")
    if batch_size is not None and not 0 < batch_size <= len(inputs):
        raise InputError(f"batch_size={batch_size} is not between 1 and the {len(inputs)} examples at hand.")
    prior = prior or gaussian(prior_scale**-2)
    return LogPosterior(model, data, likelihood, prior, temperature, batch_size, chunk)
