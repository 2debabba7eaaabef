"""Networks that a user names in words: by import path or by a name that the package knows, with their weights."""

import importlib
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from shiftmatch.data.image_set import ImageSet
from shiftmatch.errors import InputError
from shiftmatch.matching.members import load_members
from shiftmatch.matching.statistics import Statistics
from shiftmatch.models import Architecture, Preprocessing, build, load_weights
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
        load_weights(network, weights)
    return network.eval()


def open_members(name: str, weights: Path | None = None, posterior: Path | None = None) -> Sequence[nn.Module]:
    """The networks of a posterior, built when they are asked for; or one network alone."""
    network = open_network(name, weights)
    return [network] if posterior is None else Posterior.load(posterior).models(network)


def check_takes(network: nn.Module, images: ImageSet) -> None:
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
    except ValueError:
        raise InputError(f"The shape of an input is given as 3x224x224; got {shape!r}.") from None


def preprocessing(
    mean: str | None, std: str | None, size: int | None = None, *, grey: bool | None = None, base: Preprocessing
) -> Preprocessing:
    """What is known, with what the options say in its place.

    >>> preprocessing("0.5,0.4,0.4", None, base=Preprocessing(size=32))
    Preprocessing(mean=(0.5, 0.4, 0.4), std=(1.0,), size=32, grey=False, resize=None)
    """
    given: dict[str, Any] = {
        "mean": None if mean is None else _numbers(mean),
        "std": None if std is None else _numbers(std),
        "size": size,
        "grey": grey,
    }
    return replace(base, **{key: value for key, value in given.items() if value is not None})


def known_preprocessing(network: str, statistics: Statistics | None = None) -> Preprocessing:
    """How images were prepared when the statistics were measured, else when the named network was trained."""
    remembered = json.loads(statistics.note).get("preprocessing") if statistics and statistics.note[:1] == "{" else None
    own = Preprocessing() if ":" in network else Architecture(network).preprocessing
    return (Preprocessing.from_dict(remembered) if remembered else None) or own


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        raise InputError(f"Expected one number, or one per channel with commas between; got {text!r}.") from None


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
