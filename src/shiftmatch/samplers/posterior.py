"""Parameters as dictionaries of tensors, and a posterior: draws of them, in one file."""

import copy
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from operator import index
from os import PathLike
from typing import Any, SupportsIndex, final, overload

import torch
from jaxtyping import Float
from torch import Tensor, nn

from shiftmatch.errors import FileFormatError, InputError
from shiftmatch.models import Architecture
from shiftmatch.utils.files import parsing
from shiftmatch.utils.hashing import content_hash
from shiftmatch.utils.sequences import LazySequence
from shiftmatch.utils.tensor_files import load_tensors, save_tensors

Params = dict[str, Tensor]
Scalar = Float[Tensor, ""]


def params_of(model: nn.Module, patterns: str | Collection[str] = "*") -> Params:
    """A copy of the parameters of a model, by name; all of them, or those that a pattern such as "fc.*" fits.

    Args:
        model: the network.
        patterns: which of its parameters.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    >>> {name: tuple(value.shape) for name, value in params_of(net, "1.*").items()}
    {'1.weight': (1, 3), '1.bias': (1,)}
    """
    wanted = [patterns] if isinstance(patterns, str) else list(patterns)
    names = [name for name, _ in model.named_parameters()]
    for pattern in wanted:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise InputError(f"No parameter is named like {pattern!r}; the network has {', '.join(names)}.")
    chosen = [name for name in names if any(fnmatchcase(name, pattern) for pattern in wanted)]
    return {name: model.get_parameter(name).detach().clone() for name in chosen}


def add_scaled(x: Mapping[str, Tensor], scale: float | Tensor, direction: Mapping[str, Tensor]) -> Params:
    """X + scale · direction.

    >>> add_scaled({"w": torch.ones(2)}, 3.0, {"w": torch.ones(2)})
    {'w': tensor([4., 4.])}
    """
    return {name: value + scale * direction[name] for name, value in x.items()}


def standard_normal(like: Mapping[str, Tensor], generator: torch.Generator) -> Params:
    """ξ ~ N(0, I) with the names, shapes, types and devices of `like`; the generator may be on another device.

    >>> standard_normal({"w": torch.ones(2, 3)}, torch.Generator())["w"].shape
    torch.Size([2, 3])
    """
    return {
        name: torch.randn(x.shape, generator=generator, dtype=x.dtype, device=generator.device).to(x.device)
        for name, x in like.items()
    }


def inner(x: Mapping[str, Tensor], y: Mapping[str, Tensor]) -> Scalar:
    """⟨x, y⟩, summed in float64 because energies are large and their differences small.

    >>> inner({"w": torch.ones(2)}, {"w": torch.full((2,), 3.0)}).item()
    6.0
    """
    return torch.stack([(value.double() * y[name].double()).sum() for name, value in x.items()]).sum()


def value_and_grad(function: Callable[[Params], Tensor], params: Params) -> tuple[Scalar, Params]:
    """A differentiable function, in float64, and its gradient.

    >>> value_and_grad(lambda params: params["x"].square().sum(), {"x": torch.tensor([3.0])})
    (tensor(9., dtype=torch.float64), {'x': tensor([6.])})
    """
    leaves = {name: value.detach().requires_grad_() for name, value in params.items()}
    value = function(leaves).double()
    gradient = torch.autograd.grad(value, list(leaves.values()))
    return value.detach(), dict(zip(leaves, gradient, strict=True))


KIND = "a posterior"
VERSION = 1
COUNTER = "num_batches_tracked"
"""BatchNorm's count of batches, which no output depends on."""


@final
@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of every parameter, stacked on a leading axis; those of one chain follow each other.

    Args:
        params: by name, every draw of a parameter stacked on a leading axis.
        chains: the number of draws of each chain, in order.
        architecture: the name and settings of the network, kept in files so that they can be opened without it.
        info: what the sampler recorded, and how it was set.

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
        infos = [dict(info) for posterior in posteriors for info in posterior.infos]
        return Posterior(params, chains, first.architecture, {"chains": infos})

    @property
    def infos(self) -> Sequence[Mapping[str, Any]]:
        """What was recorded of each of the posteriors that were merged; of this one, if none were."""
        found: Sequence[Mapping[str, Any]] = self.info.get("chains", [self.info])
        return found

    def __len__(self) -> int:
        return sum(self.chains)

    def __iter__(self) -> Iterator[Params]:
        return (self[number] for number in range(len(self)))

    @overload
    def __getitem__(self, which: SupportsIndex) -> Params: ...
    @overload
    def __getitem__(self, which: slice) -> "Posterior": ...
    def __getitem__(self, which: SupportsIndex | slice) -> "Params | Posterior":
        if not isinstance(which, slice):
            return {name: _working(value[index(which)]) for name, value in self.params.items()}
        owner = torch.arange(len(self.chains)).repeat_interleave(torch.tensor(self.chains))[which]
        lengths = tuple(int((owner == chain).sum()) for chain in range(len(self.chains)))
        params = {name: value[which] for name, value in self.params.items()}
        return replace(self, params=params, chains=tuple(length for length in lengths if length))

    def thin(self, every: int) -> "Posterior":
        """Every `every`-th draw, counted from the last of each chain."""
        if every < 1:
            raise InputError(f"thin keeps one draw of so many, 1 or more, not {every}.")
        parts = [value[(len(value) - 1) % every :: every] for value in self.by_chain()]
        merged = Posterior.merge(parts)
        return replace(merged, info=self.info)

    def by_chain(self) -> list["Posterior"]:
        """The chains one by one, for diagnostics."""
        ends = torch.tensor(self.chains).cumsum(0).tolist()
        return [self[end - length : end] for length, end in zip(self.chains, ends, strict=True)]

    def models(self, template: nn.Module | None = None) -> LazySequence[nn.Module]:
        """The draws as networks in eval mode: a sequence that builds each member when it is asked for.

        Draws of some parameters only go with the network that they were sampled around: pass it as `template`.
        """
        if template is None:
            if self.architecture is None:
                raise InputError("This posterior does not name its network; pass one: posterior.models(network).")
            template = self.architecture.build()
        self._check_fits(template)
        return LazySequence(len(self), partial(_member, template, self))  # a lambda could not go to worker processes

    def _check_fits(self, network: nn.Module) -> None:
        frozen = [info["frozen"] for info in self.infos if "frozen" in info]
        names = {name for name, _ in network.named_parameters()}
        missing, strange = names - self.params.keys(), self.params.keys() - network.state_dict().keys()
        if strange or (missing and not frozen):
            different = ", ".join(sorted(strange | missing))
            raise InputError(f"The draws and the network differ at {different}; pass the network they belong to.")
        if any(value != frozen_hash(network, self.params) for value in frozen):
            raise InputError(
                f"These are draws of {', '.join(self.params)} around a trained network, and the other parameters or "
                "buffers of this network are not the same. Pass the network that the draws were sampled around."
            )

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
        with parsing(path, "its posterior", "Sample or copy it again."):
            architecture = header["architecture"] and Architecture(**header["architecture"])
            chains, info = tuple(header["chains"]), dict(header["info"])
        lengths = {len(value) if value.ndim else 0 for value in tensors.values()}
        if not all(type(length) is int and length >= 0 for length in chains) or lengths - {sum(chains)}:
            raise FileFormatError(f"{path} speaks of chains of {chains} draws, but holds {sorted(lengths)}.")
        return Posterior(tensors, chains, architecture, info)


def _working(value: Tensor) -> Tensor:
    """Half precision is for storage; networks compute in float32."""
    return value.float() if value.dtype == torch.float16 else value


def frozen_hash(model: nn.Module, sampled: Container[str]) -> str:
    """A hash of the parameters of a network that are not sampled, and of its buffers."""
    return content_hash({k: v for k, v in model.state_dict().items() if k not in sampled and not k.endswith(COUNTER)})


def _member(template: nn.Module, posterior: Posterior, number: int) -> nn.Module:
    """A copy of the network with a draw, in eval mode; what the draw does not have stays that of the network."""
    member = copy.deepcopy(template)
    member.load_state_dict(posterior[number], strict=False)
    return member.eval()
