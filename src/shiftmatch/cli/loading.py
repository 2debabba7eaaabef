"""Networks that a user names in words, with their weights and statistics."""

import importlib
import sys
import traceback
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn

from shiftmatch.errors import DataNotFoundError, InputError, ShiftMatchError
from shiftmatch.matching.members import load_members
from shiftmatch.matching.statistics import Statistics
from shiftmatch.models import Architecture, build, load_weights
from shiftmatch.models.weights import check_finite
from shiftmatch.samplers.posterior import Posterior


def open_network(
    name: str, weights: Path | None = None, *, seed: int = 0, device: str = "cpu", random: bool = True
) -> nn.Module:
    """The network that `module:function` or `file.py:function` returns, or one of the package's own by name.

    In evaluation mode, on `device`. Without `weights` a network of the package has those that it is drawn with, fixed
    by `seed`, unless `random` forbids it.

    >>> open_network("torch.nn:Identity")
    Identity()
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = _import(name) if ":" in name else build(name)
    if isinstance(network, torch.jit.ScriptModule):
        raise InputError(
            f"{name} is a TorchScript module: its layers are compiled and cannot be matched. Return the network that "
            f"was scripted, with the same weights."
        )
    if weights is not None:
        load_weights(network, weights)
    elif ":" not in name and not random:
        raise InputError(
            f"{name} has no weights: pass --weights FILE, or --random-weights if it is to be taken as drawn at random."
        )
    check_finite(network, str(weights or name))
    try:
        return network.eval().to(device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(
            f"--device {device} cannot be used: {str(error).splitlines()[0]}. Try --device cpu."
        ) from error


def open_members(
    name: str, weights: Path | None = None, posterior: Path | None = None, *, device: str = "cpu", random: bool = True
) -> Sequence[nn.Module]:
    """The networks of a posterior, built when they are asked for; or one network alone."""
    network = open_network(name, weights, device=device, random=random or posterior is not None)
    return [network] if posterior is None else Posterior.load(posterior).models(network)


def open_statistics(path: Path, *, of_members: bool) -> Sequence[Statistics]:
    """The statistics of every member of a posterior, or those of one network, as a sequence alike."""
    return load_members(path) if of_members else [Statistics.load(path)]


def architecture_named(name: str) -> Architecture | None:
    """What a posterior's file can say of its network: one of the package's own by name, else nothing."""
    return None if ":" in name else Architecture(name)


def example_of(shape: str) -> Tensor:
    """A batch of zeros for inputs of a shape that is given in words.

    >>> example_of("3x8x8").shape
    torch.Size([2, 3, 8, 8])
    """
    try:
        return torch.zeros(2, *(int(side) for side in shape.split("x")))
    except (ValueError, RuntimeError):
        raise InputError(f"The shape of an input is given as 3x224x224; got {shape!r}.") from None


def _import(name: str) -> nn.Module:
    place, _, attribute = name.rpartition(":")
    try:
        function = getattr(_module_of(place), attribute)
        network = function() if callable(function) and not isinstance(function, nn.Module) else function
    except ShiftMatchError:
        raise
    except Exception as error:  # of the user's code: whatever it raises, we say where
        line = traceback.extract_tb(error.__traceback__)[-1]
        where = "" if line.filename == __file__ else f", {Path(line.filename).name} line {line.lineno}"
        raise InputError(
            f"{name} cannot be built: {type(error).__name__}: {error}{where}. Name a function without arguments that "
            f"returns the network, as module:function or file.py:function; modules are looked for in {Path.cwd()} and "
            f"among the installed ones."
        ) from error
    if not isinstance(network, nn.Module):
        kind = type(network).__name__
        raise InputError(f"{name} gives a value of type {kind}; expected a torch.nn.Module. Name what returns one.")
    return network


def _module_of(place: str) -> ModuleType:
    """A module by name or by file; its folder stays importable, so that worker processes find it as well."""
    path = Path(place)
    folder = str(path.resolve().parent if path.suffix == ".py" else Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    if path.suffix != ".py":
        return importlib.import_module(place)
    if not path.is_file():
        raise DataNotFoundError(
            f"There is no file {path}; a network of your own is named as file.py:function. Check the path."
        )
    known = sys.modules.get(path.stem)
    if known is not None and Path(getattr(known, "__file__", None) or "").resolve() == path.resolve():
        return known
    if known is not None:
        raise InputError(f"{path} has the name of another module, {path.stem}. Rename the file.")
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file.")
    module = sys.modules[path.stem] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise
    return module
