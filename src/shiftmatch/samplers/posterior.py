"""Posterior: draws of the parameters of one network, in memory or in one file."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, final, overload

import torch
from torch import Tensor, nn

from shiftmatch.errors import InputError
from shiftmatch.models import Architecture
from shiftmatch.samplers.params import Params
from shiftmatch.utils.tensor_files import load_tensors, save_tensors

KIND = "a posterior"
VERSION = 1


@final
@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of every parameter, stacked on a leading axis; consecutive draws of one chain stay together.

    >>> one = Posterior.of([{"w": torch.zeros(2)}, {"w": torch.ones(2)}])
    >>> both = Posterior.merge([one, one])
    >>> len(both), both.chains, both[3]["w"]
    (4, (2, 2), tensor([1., 1.]))
    >>> len(both.thin(2)), len(both[:1])
    (2, 1)
    """

    params: Params
    chains: tuple[int, ...]
    architecture: Architecture | None = None
    info: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(
        draws: Sequence[Mapping[str, Tensor]],
        *,
        architecture: Architecture | None = None,
        info: Mapping[str, Any] | None = None,
    ) -> "Posterior":
        """Stack draws (state_dicts will do) of one chain."""
        if not draws:
            raise InputError("A posterior needs at least one draw.")
        stacked = {name: torch.stack([draw[name].detach() for draw in draws]) for name in draws[0]}
        return Posterior(stacked, (len(draws),), architecture, info or {})

    @staticmethod
    def merge(posteriors: Sequence["Posterior"]) -> "Posterior":
        """Put chains of the same network after each other; what each said of itself is kept in `info["chains"]`."""
        if not posteriors:
            raise InputError("There is no posterior to merge; pass at least one.")
        first = posteriors[0]
        for other in posteriors:
            if {k: v.shape[1:] for k, v in other.params.items()} != {k: v.shape[1:] for k, v in first.params.items()}:
                raise InputError("These posteriors have different parameters; merge chains of one network only.")
        params = {name: torch.cat([posterior.params[name] for posterior in posteriors]) for name in first.params}
        chains = tuple(length for posterior in posteriors for length in posterior.chains)
        return Posterior(params, chains, first.architecture, {"chains": [dict(p.info) for p in posteriors]})

    def __len__(self) -> int:
        return sum(self.chains)

    def __iter__(self) -> Iterator[Params]:
        return (self[index] for index in range(len(self)))

    @overload
    def __getitem__(self, which: int) -> Params: ...
    @overload
    def __getitem__(self, which: slice) -> "Posterior": ...
    def __getitem__(self, which: int | slice) -> "Params | Posterior":
        if isinstance(which, int):
            return {name: _working(value[which]) for name, value in self.params.items()}
        owner = torch.arange(len(self.chains)).repeat_interleave(torch.tensor(self.chains))[which]
        lengths = tuple(int((owner == chain).sum()) for chain in range(len(self.chains)))
        params = {name: value[which] for name, value in self.params.items()}
        return replace(self, params=params, chains=tuple(length for length in lengths if length))

    def thin(self, every: int) -> "Posterior":
        """Every `every`-th draw, counted from the last of each chain."""
        parts = [value[(len(value) - 1) % every :: every] for value in self.by_chain()]
        merged = Posterior.merge(parts)
        return replace(merged, info=self.info)

    def by_chain(self) -> list["Posterior"]:
        """The chains one by one, for diagnostics."""
        ends = torch.tensor(self.chains).cumsum(0).tolist()
        return [self[end - length : end] for length, end in zip(self.chains, ends, strict=True)]

    def models(self, template: nn.Module | None = None) -> "Members":
        """The draws as networks: a sequence that builds each member when it is asked for."""
        if template is not None:
            return Members(self, template)
        if self.architecture is None:
            raise InputError("This posterior does not name its network; pass one: posterior.models(network).")
        return Members(self, self.architecture.build())

    def save(self, path: str | PathLike[str], *, dtype: torch.dtype | None = None) -> None:
        """Write one safetensors file; `dtype=torch.float16` halves it."""
        tensors = {k: v.to(dtype) if dtype and v.is_floating_point() else v for k, v in self.params.items()}
        architecture = self.architecture and {"name": self.architecture.name, "settings": self.architecture.settings}
        header = {"chains": self.chains, "architecture": architecture, "info": self.info}
        save_tensors(path, tensors, kind=KIND, version=VERSION, header=header)

    @staticmethod
    def load(path: str | PathLike[str]) -> "Posterior":
        """Read a file that `save` wrote. The draws stay on disk until they are asked for."""
        tensors, header = load_tensors(path, kind=KIND, version=VERSION)
        architecture = header["architecture"] and Architecture(**header["architecture"])
        return Posterior(tensors, tuple(header["chains"]), architecture, header["info"])


def _working(value: Tensor) -> Tensor:
    """Half precision is for storage; networks compute in float32."""
    return value.float() if value.dtype == torch.float16 else value


@final
@dataclass(frozen=True, eq=False)
class Members(Sequence[nn.Module]):
    """The networks of a posterior, in eval mode; nothing is built before it is asked for, and nothing is kept."""

    posterior: Posterior
    template: nn.Module

    def __len__(self) -> int:
        return len(self.posterior)

    def __iter__(self) -> Iterator[nn.Module]:
        # Unlike the inherited one, this holds no member while it builds the next.
        for index in range(len(self)):
            yield self[index]

    @overload
    def __getitem__(self, which: int) -> nn.Module: ...
    @overload
    def __getitem__(self, which: slice) -> "Members": ...
    def __getitem__(self, which: int | slice) -> "nn.Module | Members":
        if isinstance(which, slice):
            return Members(self.posterior[which], self.template)
        if not -len(self) <= which < len(self):
            raise IndexError(f"There are {len(self)} draws; draw {which} is not one of them.")
        member = copy.deepcopy(self.template)
        _load(member, self.posterior[which])
        return member.eval()


def _load(model: nn.Module, draw: Params) -> None:
    """Put a draw into a network; buffers that the draw does not have stay those of the network."""
    expected = dict(model.named_parameters())
    if not expected.keys() <= draw.keys() <= model.state_dict().keys():
        strange = sorted(expected.keys() ^ (draw.keys() & expected.keys()) | draw.keys() - model.state_dict().keys())
        raise InputError(f"The draws and the network differ at {', '.join(strange)}; pass the network they belong to.")
    model.load_state_dict(draw, strict=False)
