"""Posteriors from other libraries' objects, recognised by what they offer, so that none of them is needed here."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from shiftmatch.errors import InputError
from shiftmatch.samplers.params import Params
from shiftmatch.samplers.posterior import Posterior


@runtime_checkable
class Laplace(Protocol):
    """What a `laplace-torch` approximation offers: draws of the parameters as flat vectors."""

    def sample(self, n_samples: int = ..., generator: torch.Generator | None = ...) -> Tensor: ...


def from_state_dicts(state_dicts: Iterable[Mapping[str, Tensor]]) -> Posterior:
    """A posterior from one state_dict per draw.

    >>> len(from_state_dicts(nn.Linear(2, 1).state_dict() for _ in range(3)))
    3
    """
    return Posterior.of(list(state_dicts))


def from_models(models: Iterable[nn.Module] | nn.Module) -> Posterior:
    """A posterior from trained networks: any iterable, or a torch-uncertainty ensemble, which holds `core_models`.

    >>> len(from_models([nn.Linear(2, 1), nn.Linear(2, 1)]))
    2
    """
    members = getattr(models, "core_models", models)
    if not isinstance(members, Iterable):
        raise InputError(f"{type(models).__name__} is neither a list of networks nor an ensemble with core_models.")
    return from_state_dicts(member.state_dict() for member in members)


def from_states(states: Iterable[Any]) -> Posterior:
    """A posterior from the states of a chain of the `posteriors` library; each has `params`, a mapping of tensors."""
    return Posterior.of([dict(state.params.items()) for state in states])


def from_laplace(
    laplace: Laplace, network: nn.Module, *, draws: int, generator: torch.Generator | None = None
) -> Posterior:
    """A posterior of draws from a Laplace approximation of `network`, for all its layers or for the last ones only."""
    flat = laplace.sample(n_samples=draws, generator=generator)
    fixed = {name: value.detach() for name, value in network.named_parameters()}
    sampled = _last(fixed, flat.shape[-1])
    return Posterior.of([fixed | dict(_unflatten(row, sampled)) for row in flat])


def _last(params: Params, count: int) -> Params:
    """The last parameters that have `count` elements together."""
    names = list(params)[::-1]
    for kept, total in enumerate(accumulate(params[name].numel() for name in names), start=1):
        if total == count:
            return {name: params[name] for name in names[:kept][::-1]}
    raise InputError(f"The draws have {count} numbers each, which no last layers of this network have together.")


def _unflatten(row: Tensor, like: Params) -> Iterator[tuple[str, Tensor]]:
    sizes = [value.numel() for value in like.values()]
    for (name, value), piece in zip(like.items(), torch.split(row, sizes), strict=True):
        yield name, piece.reshape(value.shape)
