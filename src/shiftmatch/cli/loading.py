"""Networks that a user names in words: by import path or by a name that the package knows, with their weights."""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from shiftmatch.data.own import OwnImages
from shiftmatch.errors import DataNotFoundError, FileFormatError, InputError
from shiftmatch.matching.members import MemberStatistics
from shiftmatch.matching.statistics import Statistics
from shiftmatch.models import Architecture, build
from shiftmatch.samplers.posterior import Posterior


def open_network(name: str, weights: Path | None = None, *, seed: int = 0) -> nn.Module:
    """The network that `module:function` returns, or one of the package's own by name; in evaluation mode.

    Modules are looked for in the working directory first. `weights` is a safetensors file with a state_dict; without
    it the network has those that the function gives it, with `seed` for what it draws at random.

    >>> open_network("torch.nn:Identity")
    Identity()
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = _import(name) if ":" in name else build(name)
    if weights is not None:
        _load(network, weights)
    return network.eval()


def open_members(name: str, weights: Path | None = None, posterior: Path | None = None) -> Sequence[nn.Module]:
    """The networks of a posterior, built when they are asked for; or one network alone."""
    network = open_network(name, weights)
    return [network] if posterior is None else Posterior.load(posterior).models(network)


def check_takes(network: nn.Module, images: OwnImages) -> None:
    """Try two images, so that a wrong size or number of channels is said in words before long work begins."""
    advice = "Image files can be cut with --size and read in one channel with --grey."
    check_runs(network, images.inputs(torch.arange(min(2, len(images)))), advice)


def check_runs(network: nn.Module, few: Tensor, advice: str = "") -> None:
    """Try a few inputs, and say in words if the network does not take them."""
    try:
        with torch.no_grad():
            network(few)
    except (RuntimeError, ValueError) as error:
        shape = " × ".join(map(str, few.shape[1:]))
        raise InputError(f"The network does not take images of shape {shape}: {error}. {advice}".strip()) from error


def open_statistics(path: Path, *, of_members: bool) -> Sequence[Statistics]:
    """The statistics of every member of a posterior, or those of one network, as a sequence alike."""
    return MemberStatistics.load(path) if of_members else [Statistics.load(path)]


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
    except ValueError:
        raise InputError(f"The shape of an input is given as 3x224x224; got {shape!r}.") from None


def _import(name: str) -> nn.Module:
    module_name, _, attribute = name.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        function = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"{name} cannot be imported: {error}. Name a function without arguments that returns the network, "
            f"as module:function; modules are looked for in {here} and among the installed ones."
        ) from error
    finally:
        sys.path.remove(here)
    network = function() if callable(function) and not isinstance(function, nn.Module) else function
    if not isinstance(network, nn.Module):
        raise InputError(f"{name} gives a {type(network).__name__}; expected a torch.nn.Module.")
    return network


def _load(network: nn.Module, weights: Path) -> None:
    if not weights.is_file():
        raise DataNotFoundError(f"There is no file {weights}.")
    try:
        network.load_state_dict(load_file(weights))
    except SafetensorError as error:
        raise FileFormatError(
            f"{weights} is no safetensors file ({error}). Write one with safetensors.torch.save_file(net.state_dict(), "
            f"path); other formats can run code when they are opened."
        ) from error
    except RuntimeError as error:
        raise InputError(f"The weights in {weights} are not those of this network: {error}") from error
