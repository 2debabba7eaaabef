"""Log densities over parameters: of a function, and the log posterior of a network over all the data or minibatches."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol, final, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from shiftmatch.errors import InputError
from shiftmatch.samplers.posterior import Params, Scalar, add_scaled, value_and_grad
from shiftmatch.samplers.priors import Prior, gaussian

Data = tuple[Tensor, Tensor]
Likelihood = Callable[[Tensor, Tensor], Tensor]
"""(outputs of the network, targets) -> Σ log p(target | output)."""

MICRO_BATCH = 200
"""Images per piece of a full-batch gradient: on a CPU, a piece stays in the cache."""

RANDOM_OR_CHANGING = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)
"""Layers whose outputs, in training mode, are random or depend on the other images of a batch."""


@runtime_checkable
class LogDensity(Protocol):
    """log p(θ) up to a constant, and its gradient.

    A density over a data set may estimate both from a minibatch, which it draws with the generator.

    >>> isinstance(FromFunction(lambda params: -params["x"].square().sum() / 2), LogDensity)
    True
    """

    def value_and_grad(self, params: Params, generator: torch.Generator) -> tuple[Scalar, Params]:
        """Log p and its gradient at these parameters."""
        ...


@final
@dataclass(frozen=True, eq=False)
class FromFunction:
    """The log density that a differentiable function states.

    Args:
        function: parameters in, log p out, differentiable.

    >>> parabola = FromFunction(lambda params: -params["x"].square().sum() / 2)
    >>> parabola.value_and_grad({"x": torch.tensor([3.0])}, torch.Generator())
    (tensor(-4.5000, dtype=torch.float64), {'x': tensor([-3.])})
    """

    function: Callable[[Params], Tensor]

    def value_and_grad(self, params: Params, generator: torch.Generator) -> tuple[Scalar, Params]:
        """Log p and its gradient at these parameters."""
        return value_and_grad(self.function, params)


def categorical(logits: Float[Tensor, "b k"], labels: Tensor) -> Scalar:
    """Σ log softmax(logits)[label].

    >>> categorical(torch.zeros(3, 4), torch.tensor([0, 1, 2])).item() == -3 * torch.tensor(4.0).log().item()
    True
    """
    return -functional.cross_entropy(logits, labels, reduction="sum")


@final
@dataclass(frozen=True, eq=False)
class LogPosterior:
    """log p(θ | data) = (Σ log p(y | f(x; θ)) + log p(θ)) / T, up to a constant.

    With a batch size, the sum over the data is estimated from a minibatch drawn without replacement. θ may be some of
    the network's parameters only: the others, and the buffers, stay those of the network.
    """

    model: nn.Module
    data: Data
    likelihood: Likelihood
    prior: Prior
    temperature: float
    batch_size: int | None
    micro_batch: int

    def value_and_grad(self, params: Params, generator: torch.Generator) -> tuple[Scalar, Params]:
        """Log p and its gradient at these parameters, from a minibatch if there is a `batch_size`."""
        value, gradient = value_and_grad(self.prior, params)
        inputs, targets, weight = self._batch(generator)
        for x, y in zip(inputs.split(self.micro_batch), targets.split(self.micro_batch), strict=True):
            part_value, part_gradient = value_and_grad(partial(self.log_likelihood, inputs=x, targets=y), params)
            value, gradient = value + weight * part_value, add_scaled(gradient, weight, part_gradient)
        return value / self.temperature, {name: g / self.temperature for name, g in gradient.items()}

    def log_likelihood(self, params: Params, inputs: Tensor, targets: Tensor) -> Scalar:
        """Σ log p(y | f(x; θ)) over the given examples."""
        return self.likelihood(functional_call(self.model, params, (inputs,)), targets)

    def settings(self, params: Params) -> Mapping[str, object]:
        """What tells this posterior from others: everything but the parameters that are sampled."""
        fixed = {name: value for name, value in self.model.state_dict().items() if name not in params}
        return {
            "network": [repr(self.model), fixed],
            "inputs": self.data[0],
            "targets": self.data[1],
            "likelihood": self.likelihood,
            "prior": self.prior,
            "temperature": self.temperature,
            "batch_size": self.batch_size,
        }

    def _batch(self, generator: torch.Generator) -> tuple[Tensor, Tensor, float]:
        inputs, targets = self.data
        if self.batch_size is None:
            return inputs, targets, 1.0
        order = torch.randperm(len(inputs), generator=generator, device=generator.device)
        chosen = order[: self.batch_size].to(inputs.device)
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
    micro_batch: int = MICRO_BATCH,
) -> LogPosterior:
    """The log posterior of a network's parameters given its training data.

    BatchNorm and dropout must be in eval mode: then the likelihood is a function of the parameters only.

    Args:
        model: the network.
        data: (inputs, targets).
        prior: a log density of the parameters, such as `gaussian` returns; N(0, prior_scale² I) unless given.
        prior_scale: the standard deviation of that.
        likelihood: outputs and targets in, log likelihoods out; that of classes unless given.
        temperature: below 1 makes the posterior narrower than Bayes' rule (a "cold posterior"), 1 is Bayes.
        batch_size: estimate from so many images, drawn for each call; all of them unless given.
        micro_batch: images that pass through the network at a time.

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
    for name, value in {"temperature": temperature, "prior_scale": prior_scale}.items():
        if not value > 0:
            raise InputError(f"{name} must be positive, not {value}; 1 is the default.")
    for name, layer in model.named_modules():
        if layer.training and isinstance(layer, RANDOM_OR_CHANGING):
            raise InputError(
                f"{name or 'The network'} ({type(layer).__name__}) is in training mode: its outputs are random or "
                "depend on the other images. Call model.eval() first: BatchNorm then uses its running moments."
            )
    return LogPosterior(
        _own(model), data, likelihood, prior or gaussian(prior_scale**-2), temperature, batch_size, micro_batch
    )


def _own(model: nn.Module) -> nn.Module:
    """Modules of our own over the same tensors: a call with other parameters must not be seen in the user's network."""
    return copy.deepcopy(model, {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())})
