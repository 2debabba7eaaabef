"""Posteriors from elsewhere: other libraries' objects, recognised by what they offer, and the published HMC samples.

The published samples are pickles of Haiku parameter trees: `model_step_<n>.pt` with one draw, `state-<n>.pkl` with one
of every chain. They are read without running any of their code, and renamed for our networks.
"""

import io
import os
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftmatch.errors import FileFormatError, InputError
from shiftmatch.models import Architecture
from shiftmatch.models.layers import FilterResponseNorm
from shiftmatch.samplers.posterior import Params, Posterior
from shiftmatch.utils.parallel import track


@runtime_checkable
class Laplace(Protocol):
    """What a `laplace-torch` approximation offers: draws of the parameters as flat vectors."""

    def sample(self, n_samples: int = ..., generator: torch.Generator | None = ...) -> Tensor: ...


def from_state_dicts(state_dicts: Iterable[Mapping[str, Tensor]]) -> Posterior:
    """A posterior from one state_dict per draw.

    Args:
        state_dicts: of networks of one architecture.

    >>> len(from_state_dicts(nn.Linear(2, 1).state_dict() for _ in range(3)))
    3
    """
    return Posterior.of(list(state_dicts))


def from_models(models: Iterable[nn.Module] | nn.Module) -> Posterior:
    """A posterior from trained networks: any iterable, or a torch-uncertainty ensemble, which holds `core_models`.

    Args:
        models: networks of one architecture.

    >>> len(from_models([nn.Linear(2, 1), nn.Linear(2, 1)]))
    2
    """
    members = getattr(models, "core_models", models)
    if not isinstance(members, Iterable):
        raise InputError(f"{type(models).__name__} is neither a list of networks nor an ensemble with core_models.")
    return from_state_dicts(member.state_dict() for member in members)


def from_states(states: Iterable[Any]) -> Posterior:
    """A posterior from the states of a chain of the `posteriors` library; each has `params`, a mapping of tensors.

    Args:
        states: the draws, in order.

    >>> from types import SimpleNamespace
    >>> len(from_states(SimpleNamespace(params={"w": torch.zeros(2)}) for _ in range(3)))
    3
    """
    return Posterior.of([dict(state.params.items()) for state in states])


def from_laplace(
    laplace: Laplace, network: nn.Module, *, draws: int, generator: torch.Generator | None = None
) -> Posterior:
    """A posterior of draws from a Laplace approximation of `network`, for all its layers or for the last ones only.

    Args:
        laplace: an approximation of `laplace-torch`, fitted.
        network: what it was fitted to.
        draws: how many.
        generator: fixes them.

    >>> class Normal:  # what laplace-torch offers
    ...     def sample(self, n_samples=1, generator=None):
    ...         return torch.randn(n_samples, 6, generator=generator)
    >>> len(from_laplace(Normal(), nn.Linear(2, 2), draws=5))
    5
    """
    flat = laplace.sample(n_samples=draws, generator=generator)
    fixed = {name: value.detach() for name, value in network.named_parameters()}
    sampled = _last(fixed, flat.shape[-1])
    return Posterior.of([fixed | dict(_unflatten(row, sampled)) for row in flat])


def _last(params: Params, count: int) -> Params:
    """The last parameters that have `count` elements in all."""
    names = list(params)[::-1]
    for kept, total in enumerate(accumulate(params[name].numel() for name in names), start=1):
        if total == count:
            return {name: params[name] for name in names[:kept][::-1]}
    raise InputError(f"The draws have {count} numbers each, which no last layers of this network have in all.")


def _unflatten(row: Tensor, like: Params) -> Iterator[tuple[str, Tensor]]:
    sizes = [value.numel() for value in like.values()]
    for (name, value), piece in zip(like.items(), torch.split(row, sizes), strict=True):
        yield name, piece.reshape(value.shape)


class Inert(tuple[Any, ...]):
    """Stands for an optimiser state, of which nothing is needed."""

    __slots__ = ()

    def __new__(cls, *_: Any) -> "Inert":
        return super().__new__(cls)

    def __setstate__(self, state: object) -> None:
        pass


class PickledType:
    """What a pickle says of the type of an array; only numbers and truth values are taken."""

    def __init__(self, code: object = "", *_: object) -> None:
        self.code, self.order = str(code), "="

    def __setstate__(self, state: object) -> None:
        self.order = str(state[1]) if isinstance(state, tuple) and len(state) > 1 else "="

    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of this name."""
        if not re.fullmatch(r"[biuf][1-8]", self.code):
            raise pickle.UnpicklingError(f"an array of the type {self.code!r:.40}")
        return np.dtype(self.code).newbyteorder(">" if self.order == ">" else "<")


class PickledArray:
    """An array as a pickle describes it; made into one by us, because NumPy trusts what it unpickles."""

    def __init__(self, *_: object) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def array(self) -> NDArray[Any]:
        """The array: the file's own bytes, in the shape that it names."""
        _, shape, kind, by_columns, content = self.state
        if not isinstance(kind, PickledType) or not isinstance(content, bytes) or not isinstance(shape, tuple):
            raise pickle.UnpicklingError("an array of other things than numbers")
        return np.frombuffer(content, kind.dtype()).reshape(shape, order="F" if by_columns else "C")


def _pickled_scalar(kind: PickledType, content: bytes) -> Any:
    return np.frombuffer(content, kind.dtype())[0]


def _jax_array(function: Any, arguments: Any, state: Any, *_: Any) -> Any:
    if function is not PickledArray:
        raise pickle.UnpicklingError("a JAX array that is not rebuilt from a NumPy array")
    array = function(*arguments)
    array.__setstate__(state)
    return array


def _arrays(content: Any, depth: int = 0) -> Any:
    """Dicts as they are, arrays as arrays."""
    if isinstance(content, PickledArray):
        return content.array()
    if isinstance(content, dict) and depth < MAX_DEPTH:
        return {key: _arrays(value, depth + 1) for key, value in content.items()}
    return content


MAX_DEPTH = 10
"""Trees of parameters are two levels deep."""
ALLOWED: dict[str, Callable[..., Any]] = {
    "haiku._src.data_structures.FlatMapping": dict,
    "haiku._src.data_structures.frozendict": dict,
    "haiku._src.data_structures.FlatMap": dict,
    "collections.OrderedDict": dict,
    "numpy.ndarray": PickledArray,
    "numpy.dtype": PickledType,
    "jax._src.device_array.reconstruct_device_array": _jax_array,
    "jax._src.array._reconstruct_array": _jax_array,
    **{f"numpy.{core}.multiarray._reconstruct": PickledArray for core in ("core", "_core")},
    **{f"numpy.{core}.multiarray.scalar": _pickled_scalar for core in ("core", "_core")},
    **{f"optax._src.transform.{name}State": Inert for name in ("Trace", "ScaleBySchedule", "ScaleByAdam")},
    **{
        f"{package}core.sgmcmc.{name}State": Inert
        for package in ("bnn_hmc.", "")
        for name in ("OptaxSGLD", "IdentityPreconditioner", "RMSPropPreconditioner")
    },
}
"""Every name that a file may ask for; all of them only build arrays, dicts and tuples."""


class AllowListUnpickler(pickle._Unpickler):
    """Looks names up in ALLOWED and nowhere else.

    The one written in Python: a few bytes can make the other one reserve gigabytes for its table of objects.
    """

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        if full not in ALLOWED:
            raise pickle.UnpicklingError(f"{full}, which is not among the array types that such files need")
        return ALLOWED[full]


def read_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a published checkpoint as dicts and arrays; a file that asks for anything else is refused."""
    stored = io.BytesIO(Path(path).read_bytes())
    try:
        content = _arrays(AllowListUnpickler(stored).load())
    except Exception as error:  # whatever bytes that are no pickle lead to
        raise FileFormatError(f"{path} was refused and nothing in it was run: it holds {error}.") from error
    if not isinstance(content, dict) or not isinstance(content.get("params"), dict):
        raise FileFormatError(f"{path} is not a checkpoint of HMC samples: it has no 'params'.")
    leaves = [
        leaf
        for module in content["params"].values()
        for leaf in (module.values() if isinstance(module, dict) else [None])
    ]
    arrays = all(isinstance(leaf, np.ndarray) for leaf in leaves)
    if not arrays or not all(isinstance(name, str) for name in content["params"]):
        raise FileFormatError(f"{path} is not a checkpoint of HMC samples: its 'params' are no arrays by name.")
    return content


def import_hmc(files: Iterable[str | os.PathLike[str]], architecture: Architecture) -> Posterior:
    """Published samples as a posterior. Draws that are marked as not accepted are left out, as in their evaluation.

    Args:
        files: state-*.pkl or model_step_*.pt; leave out the burn-in.
        architecture: the network of the samples.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".pkl") as file:
    ...     import_hmc([file.name], Architecture("lenet"))
    Traceback (most recent call last):
    shiftmatch.errors.FileFormatError: ... was refused and nothing in it was run: ...
    """
    template = architecture.build()
    ordered = sorted((Path(file) for file in files), key=_number)
    by_file: dict[str, list[Params]] = {}
    for path in track(ordered, "reading samples"):
        content = read_checkpoint(path)
        if bool(np.all(content.get("accepted", True))):
            by_file[path.name] = convert(content["params"], template)
    if not by_file:
        raise InputError(f"None of the {len(ordered)} files holds an accepted draw; check the paths.")
    if len(set(map(len, by_file.values()))) > 1:
        counts = ", ".join(f"{name}: {len(draws)}" for name, draws in by_file.items())
        raise FileFormatError(f"The files hold different numbers of chains ({counts}). Pass those of one run.")
    merged = Posterior.merge([Posterior.of(draws) for draws in zip(*by_file.values(), strict=True)])
    return Posterior(merged.params, merged.chains, architecture, {"imported": [path.name for path in ordered]})


def convert(tree: Mapping[str, Mapping[str, Any]], template: nn.Module) -> list[Params]:
    """Haiku parameters under the names of `template`: one draw, or one per chain if every leaf is stacked."""
    leaves = {module.split("/")[-1]: values for module, values in tree.items()}
    expected = dict(template.named_parameters())
    stacked: dict[str, Tensor] = {}
    for (module, leaf), (name, permutation) in _names(template).items():
        if module not in leaves or leaf not in leaves[module]:
            raise InputError(
                f"The samples have no {module}/{leaf}; they have {', '.join(leaves)}. Choose their network."
            )
        value = torch.from_numpy(np.array(leaves[module][leaf], dtype=np.float32))
        value = value if value.dim() > len(permutation) else value[None]
        if value.dim() != len(permutation) + 1:
            raise InputError(f"{module}/{leaf} has {value.dim() - 1} axes; this network needs {len(permutation)}.")
        stacked[name] = value.permute(0, *(axis + 1 for axis in permutation)).contiguous()
        if stacked[name].shape[1:] != expected[name].shape:
            shapes = tuple(stacked[name].shape[1:]), tuple(expected[name].shape)
            raise InputError(f"{module}/{leaf} has the shape {shapes[0]}; this network needs {shapes[1]}.")
    chains = {len(value) for value in stacked.values()}
    if len(chains) > 1:
        raise FileFormatError(f"The leaves of one file hold different numbers of chains: {sorted(chains)}.")
    return [{name: value[chain] for name, value in stacked.items()} for chain in range(chains.pop())]


_LAYERS: Sequence[tuple[type[nn.Module], str, Mapping[str, tuple[str, tuple[int, ...]]]]] = (
    (nn.Conv2d, "conv2_d", {"w": ("weight", (3, 2, 0, 1)), "b": ("bias", (0,))}),
    (nn.Linear, "linear", {"w": ("weight", (1, 0)), "b": ("bias", (0,))}),
    (FilterResponseNorm, "frn", {leaf: (leaf, (0, 3, 1, 2)) for leaf in ("tau", "beta", "gamma")}),
)
"""Layer type, its Haiku name, and for each of its leaves our name and how to permute the axes."""


def _names(template: nn.Module) -> dict[tuple[str, str], tuple[str, tuple[int, ...]]]:
    """(Haiku module, leaf) -> (our parameter, permutation). Haiku numbers the layers of a kind as they are made."""
    found: dict[tuple[str, str], tuple[str, tuple[int, ...]]] = {}
    for kind, haiku_name, leaves in _LAYERS:
        layers = [name for name, layer in template.named_modules() if isinstance(layer, kind)]
        for index, name in enumerate(layers):
            module = f"{haiku_name}_{index}" if index else haiku_name
            found |= {(module, leaf): (f"{name}.{ours}", axes) for leaf, (ours, axes) in leaves.items()}
    return found


def _number(path: Path) -> int:
    digits = re.findall(r"\d+", path.stem)
    return int(digits[-1]) if digits else 0
