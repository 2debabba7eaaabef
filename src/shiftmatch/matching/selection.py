"""Which places of a network become sites: found by watching one forward pass, narrowed by the user's choice."""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from math import prod
from typing import Any, Literal, TypeAlias

from torch import nn

from shiftmatch.errors import InputError, ShiftMatchError, SiteError
from shiftmatch.matching.flow import Flow
from shiftmatch.matching.inputs import Inputs, is_features
from shiftmatch.matching.site import Layout, Site, Sites
from shiftmatch.matching.trace import Node, Trace, trace
from shiftmatch.matching.twin import twin_of

Place: TypeAlias = Literal["pre-activation", "post-activation", "input", "module"]
"""Where sites may lie: `module` is the output of every module."""

Choice: TypeAlias = str | type[nn.Module] | Callable[[Site], bool] | Iterable[str | type[nn.Module]]
"""Which of them to take: name patterns (`layer1.*`), module types, or a function of the site."""

EXAMPLE = 4
"""Images that are enough to see what a forward pass does."""

MAX_PREFIX_TOKENS = 8
"""A sequence that is longer than a map by at most this many tokens is that map and tokens before it."""


def sites(model: nn.Module, example: Any, choose: Choice | None = None, *, at: Place = "pre-activation") -> Sites:
    """The sites of a network: its input and the pre-activations of its main branch, unless chosen otherwise.

    `example` is a batch as a loader yields it: a tensor, a tuple of several inputs, or a dictionary. A twin of the
    network runs once on a few of its images.

    >>> import torch
    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    >>> sites(net, torch.zeros(2, 3, 8, 8)).names
    ['input', '0']
    """
    inputs = Inputs(tuple(example)) if _several_inputs(example) else Inputs.of(example)
    few = inputs.on(model).at(slice(EXAMPLE))
    record = _watched(model, few)
    found = [_input_site(name, record.nodes[index]) for name, index in record.inputs.items()]
    if at != "input":
        found += _PLACES[at](record, few.images)
    if not found:
        raise SiteError(
            f"{type(model).__name__} has no place to match: none of its inputs is a batch of floating-point features."
        )
    return Sites(tuple(found if choose is None else _chosen(found, choose, model)))


def _several_inputs(example: object) -> bool:
    return isinstance(example, list | tuple) and all(map(is_features, example))


def _watched(model: nn.Module, inputs: Inputs) -> Trace:
    try:
        twin = twin_of(model)
        return trace(twin, inputs.named(twin), lambda: twin(*inputs.args, **inputs.kwargs))
    except (RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, ShiftMatchError):
            raise
        shapes = ", ".join(str(tuple(x.shape[1:])) for x in inputs.tensors())
        raise InputError(
            f"{type(model).__name__} does not run on inputs of shape {shapes}: {error}. "
            "Pass batches as the network takes them: right channels and size, normalised, in floating point."
        ) from error


def _input_site(name: str, node: Node) -> Site:
    return Site(name, "input", node.shape[1:], Layout(channel=1))


def _pre_activations(record: Trace, images: int) -> list[Site]:
    return [_site(record, node, images) for node in Flow(record).pre_activations() if _is_batch(node, images)]


def _post_activations(record: Trace, images: int) -> list[Site]:
    return [_site(record, node, images) for node in Flow(record).post_activations() if _is_batch(node, images)]


def _modules(record: Trace, images: int) -> list[Site]:
    returned = dict.fromkeys(call.returns for call in sorted(record.calls, key=lambda call: call.returns))
    nodes = [record.nodes[index] for index in returned if index not in record.inputs.values()]
    return [_site(record, node, images) for node in nodes if len(node.shape) >= 2 and _is_batch(node, images)]


_PLACES = {"pre-activation": _pre_activations, "post-activation": _post_activations, "module": _modules}


def _is_batch(node: Node, images: int) -> bool:
    """Whether the first axis holds the images; a sequence-first layer has its steps there."""
    return node.batch == 0 and node.shape[0] % images == 0


def _site(record: Trace, node: Node, images: int) -> Site:
    """The site of a value, named by the innermost module that returns it, else by the function that made it."""
    call = next((call for call in record.calls if call.returns == node.index), None)
    name, kind = (call.address, type(call.module).__name__) if call else (node.address, node.function)
    calls = sum(name.partition("#")[0] == other.address.partition("#")[0] for other in record.calls) if call else 1
    return Site(name, kind, node.shape[1:], _layout(record, node), calls, node.shape[0] // images)


def _layout(record: Trace, node: Node) -> Layout:
    """How to read a tensor; a sequence as long as the last convolution's map, or a little longer, is that map."""
    if len(node.shape) == 3 and node.channel == 2:
        for before in reversed(record.nodes[: node.index]):
            grid = tuple(size for axis, size in enumerate(before.shape) if axis not in (0, before.channel))
            prefix = node.shape[1] - prod(grid)
            if before.function == "conv2d" and 0 <= prefix <= MAX_PREFIX_TOKENS:
                return Layout(node.channel, grid, prefix)
    return Layout(node.channel)


def _chosen(found: list[Site], choose: Choice, model: nn.Module) -> list[Site]:
    if callable(choose) and not isinstance(choose, type):
        return [site for site in found if choose(site)] or _nothing_chosen(found, choose)
    rules = [choose] if isinstance(choose, str | type) else list(choose)
    for rule in rules:
        if not any(_follows(site, rule, model) for site in found):
            _nothing_chosen(found, rule)
    return [site for site in found if any(_follows(site, rule, model) for rule in rules)]


def _follows(site: Site, rule: str | type[nn.Module], model: nn.Module) -> bool:
    if isinstance(rule, str):
        return fnmatchcase(site.name, rule)
    return not site.is_input and isinstance(model.get_submodule(site.module), rule)


def _nothing_chosen(found: list[Site], rule: object) -> list[Site]:
    names = ", ".join(site.name for site in found)
    raise SiteError(
        f"No site fits {rule!r}. Those to choose from are: {names}. Other places: at='module' lists them all."
    )
