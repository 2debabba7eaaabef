"""The published HMC samples: read without running any of their code, and renamed for our networks.

They are pickles of Haiku parameter trees: `model_step_<n>.pt` with one draw, `state-<n>.pkl` with one of every chain.
"""

import os
import pickle
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftmatch.errors import FileFormatError, InputError
from shiftmatch.models import Architecture
from shiftmatch.models.layers import FilterResponseNorm
from shiftmatch.samplers.params import Params
from shiftmatch.samplers.posterior import Posterior
from shiftmatch.utils.progress import track

# NumPy has moved these functions between releases; its own arrays know where they are.
_RECONSTRUCT: Any = np.zeros(()).__reduce__()[0]
_SCALAR: Any = np.float32(0).__reduce__()[0]


class Inert(tuple[Any, ...]):
    """Stands for an optimiser state, of which nothing is needed."""

    __slots__ = ()

    def __new__(cls, *_: Any) -> "Inert":
        return super().__new__(cls)

    def __setstate__(self, state: object) -> None:
        pass


def _jax_array(function: Any, arguments: Any, state: Any, *_: Any) -> Any:
    if function is not _RECONSTRUCT:
        raise pickle.UnpicklingError("a JAX array that is not rebuilt from a NumPy array")
    array = function(*arguments)
    array.__setstate__(state)
    return array


ALLOWED: dict[str, Callable[..., Any]] = {
    "haiku._src.data_structures.FlatMapping": dict,
    "haiku._src.data_structures.frozendict": dict,
    "haiku._src.data_structures.FlatMap": dict,
    "collections.OrderedDict": dict,
    "numpy.ndarray": np.ndarray,
    "numpy.dtype": np.dtype,
    "jax._src.device_array.reconstruct_device_array": _jax_array,
    "jax._src.array._reconstruct_array": _jax_array,
    **{f"numpy.{core}.multiarray._reconstruct": _RECONSTRUCT for core in ("core", "_core")},
    **{f"numpy.{core}.multiarray.scalar": _SCALAR for core in ("core", "_core")},
    **{f"optax._src.transform.{name}State": Inert for name in ("Trace", "ScaleBySchedule", "ScaleByAdam")},
    **{
        f"{package}core.sgmcmc.{name}State": Inert
        for package in ("bnn_hmc.", "")
        for name in ("OptaxSGLD", "IdentityPreconditioner", "RMSPropPreconditioner")
    },
}
"""Every name that a file may ask for; all of them only build arrays, dicts and tuples."""


class AllowListUnpickler(pickle.Unpickler):
    """Looks names up in ALLOWED and nowhere else."""

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        if full not in ALLOWED:
            raise pickle.UnpicklingError(f"{full}, which is not among the array types that such files need")
        return ALLOWED[full]


def read_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a published checkpoint as dicts and arrays; a file that asks for anything else is refused."""
    try:
        with Path(path).open("rb") as file:
            content = AllowListUnpickler(file).load()
    except (pickle.UnpicklingError, EOFError, AttributeError, IndexError, TypeError, ValueError) as error:
        raise FileFormatError(f"{path} was refused and nothing in it was run: it holds {error}.") from error
    if not isinstance(content, dict) or "params" not in content:
        raise FileFormatError(f"{path} is not a checkpoint of HMC samples: it has no 'params'.")
    return content


def import_hmc(files: Iterable[str | os.PathLike[str]], architecture: Architecture) -> Posterior:
    """Published samples as a posterior. Draws that are marked as not accepted are left out, as in their evaluation."""
    template = architecture.build()
    ordered = sorted((Path(file) for file in files), key=_number)
    by_file = []
    for path in track(ordered, "reading samples"):
        content = read_checkpoint(path)
        if bool(np.all(content.get("accepted", True))):
            by_file.append(convert(content["params"], template))
    if not by_file:
        raise InputError(f"None of the {len(ordered)} files holds an accepted draw; check the paths.")
    chains = [Posterior.of(draws, architecture=architecture) for draws in zip(*by_file, strict=True)]
    merged = Posterior.merge(chains)
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
