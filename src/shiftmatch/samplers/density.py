"""The log posterior of a network, from a likelihood and a prior, over all the data or over random minibatches."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from shiftmatch.errors import InputError
from shiftmatch.samplers.blocks import in_blocks
from shiftmatch.samplers.interface import FromFunction, value_and_grad
from shiftmatch.samplers.params import Params, Scalar, add_scaled
from shiftmatch.samplers.priors import Prior, gaussian
from shiftmatch.utils.parallel import parallel_map

Data = tuple[Tensor, Tensor]
Likelihood = Callable[[Tensor, Tensor], Tensor]
"""(outputs of the network, targets) -> Σ log p(target | output)."""

IMAGE_AXES = 4
"""Axes of images, and of the weights of their convolutions: what can be laid out with the channels last."""

CHUNK = 200
"""Images per piece of a full-batch gradient: measured fastest on CPU, because a piece stays in the cache."""

AT_ONCE = 4
"""Pieces that threads work on at once, at most: each of them needs memory."""

DROPOUT = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
"""Layers that draw random numbers in training mode, one after the other."""


def categorical(logits: Float[Tensor, "b k"], labels: Tensor) -> Scalar:
    """Σ log softmax(logits)[label].

    >>> categorical(torch.zeros(3, 4), torch.tensor([0, 1, 2])).item() == -3 * torch.tensor(4.0).log().item()
    True
    """
    return -functional.cross_entropy(logits, labels, reduction="sum")


@dataclass(frozen=True)
class LogPosterior:
    """log p(θ | data) = (Σ log p(y | f(x; θ)) + log p(θ)) / T, up to a constant.

    With a batch size, the sum over the data is estimated from a minibatch drawn without replacement. Model and data may
    be in another form than they were given in, with the same parameters and outputs.
    """

    model: nn.Module
    data: Data
    likelihood: Likelihood
    prior: Prior
    temperature: float
    batch_size: int | None
    chunk: int
    layout: torch.memory_format

    def value_and_grad(self, params: Params, generator: torch.Generator) -> tuple[Scalar, Params]:
        value, gradient = FromFunction(self.prior).value_and_grad(params, generator)
        inputs, targets, weight = self._batch(generator)
        laid_out = {name: _in_layout(x, self.layout) for name, x in params.items()}
        for part_value, part_gradient in self._likelihoods(laid_out, inputs, targets):
            value, gradient = value + weight * part_value, add_scaled(gradient, weight, part_gradient)
        return value / self.temperature, {name: g.contiguous() / self.temperature for name, g in gradient.items()}

    def log_likelihood(self, params: Params, inputs: Tensor, targets: Tensor) -> Scalar:
        """Σ log p(y | f(x; θ)) over the given examples."""
        return self.likelihood(functional_call(self.model, params, (inputs,)), targets)

    def _likelihoods(self, params: Params, inputs: Tensor, targets: Tensor) -> list[tuple[Scalar, Params]]:
        """Log likelihoods with their gradients, which sum up to that of all examples."""
        pieces = list(zip(inputs.split(self.chunk), targets.split(self.chunk), strict=True))
        twins = self._twins(min(AT_ONCE, torch.get_num_threads(), len(pieces)))
        parts = [(twin, pieces[i :: len(twins)]) for i, twin in enumerate(twins)]
        return parallel_map(lambda part: part[0]._summed(params, part[1]), parts)

    def _summed(self, params: Params, pieces: Sequence[Data]) -> tuple[Scalar, Params]:
        found = (value_and_grad(partial(self.log_likelihood, inputs=x, targets=y), params) for x, y in pieces)
        return reduce(lambda a, b: (a[0] + b[0], add_scaled(a[1], 1.0, b[1])), found)

    def _twins(self, count: int) -> list["LogPosterior"]:
        """Densities that can be asked at once: a network can have other parameters in one thread at a time only."""
        if count == 1 or not _can_be_asked_at_once(self.model, self.data[0].device):
            return [self]
        weights = {id(x): x for x in chain(self.model.parameters(), self.model.buffers())}
        try:
            return [self, *(replace(self, model=deepcopy(self.model, weights.copy())) for _ in range(count - 1))]
        except (RuntimeError, TypeError):  # some networks cannot be copied
            return [self]

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
    blocks = in_blocks(model, inputs) if inputs.device.type == "cpu" else None
    model, inputs = blocks or (model, inputs)
    layout = torch.contiguous_format if blocks else _fastest_layout(model, inputs)
    data = (_in_layout(inputs, layout), targets)
    return LogPosterior(model, data, likelihood, prior, temperature, batch_size, chunk, layout)


def _can_be_asked_at_once(model: nn.Module, device: torch.device) -> bool:
    """Whether passes need nothing of each other, on a CPU; autocast is a matter of one thread."""
    training = [module for module in model.modules() if module.training]
    changing = any(isinstance(module, DROPOUT) or [*module.buffers(recurse=False)] for module in training)
    return device.type == "cpu" and not changing and not torch.is_autocast_enabled("cpu")


def _fastest_layout(model: nn.Module, inputs: Tensor) -> torch.memory_format:
    """Channels last for convolutions on a CPU, where the network allows it: some views of features need the other.

    It is found by trial, not by the clock, so that a run that goes on after a kill computes the same numbers.
    """
    weights = {name: _in_layout(x.detach(), torch.channels_last) for name, x in model.named_parameters()}
    if inputs.device.type != "cpu" or not any(weight.dim() == IMAGE_AXES for weight in weights.values()):
        return torch.contiguous_format
    buffers = {name: x.clone() for name, x in model.named_buffers()}  # the trial leaves no trace in the model
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            functional_call(model, weights | buffers, (_in_layout(inputs[:2], torch.channels_last),))
    except RuntimeError:
        return torch.contiguous_format
    return torch.channels_last


def _in_layout(x: Tensor, layout: torch.memory_format) -> Tensor:
    return x.contiguous(memory_format=layout) if x.dim() == IMAGE_AXES else x
