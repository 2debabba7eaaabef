"""Sites: the places in a network where features are matched. Which there are, and how to read their tensors."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod
from typing import Any, Literal, TypeAlias, final, overload

import torch
from torch import Tensor, nn

from shiftmatch.errors import InputError, ShiftMatchError, SiteError
from shiftmatch.matching.graph import WEIGHTS, Call, Flow, Node, Trace, trace
from shiftmatch.matching.inputs import INPUT, Inputs, is_features
from shiftmatch.matching.twin import twin_of

Place: TypeAlias = Literal["pre-activation", "post-activation", "input", "module"]
"""Where sites may lie: `module` is the output of every module."""

Choice: TypeAlias = str | type[nn.Module] | Callable[["Site"], bool] | Iterable[str | type[nn.Module]]
"""Which of them to take: name patterns (`layer1.*`), module types, or a function of the site."""

EXAMPLE = 4
"""Images that are enough to see what a forward pass does."""

MAX_PREFIX_TOKENS = 8
"""A sequence that is longer than a map by at most this many tokens is that map and tokens before it."""


@final
@dataclass(frozen=True)
class Layout:
    """Which axis of a site's tensor holds the channels; for tokens, the grid of patches and the tokens before it.

    Args:
        channel: the axis of the channels.
        grid: for tokens, rows and columns of patches.
        prefix: how many tokens come before them.

    >>> Layout(channel=2, grid=(7, 7), prefix=1)  # a ViT: 7 × 7 patches behind a class token
    Layout(channel=2, grid=(7, 7), prefix=1)
    """

    channel: int
    grid: tuple[int, ...] = ()
    prefix: int = 0

    def split(self, x: Tensor) -> list[Tensor]:
        """The features in a tensor: the map (b c *space), then each token before it (b c).

        >>> tokens = torch.zeros(2, 1 + 6, 5)
        >>> [tuple(part.shape) for part in Layout(channel=2, grid=(2, 3), prefix=1).split(tokens)]
        [(2, 5, 2, 3), (2, 5)]
        """
        maps = x.movedim(self.channel, 1)
        if not self.grid:
            return [maps]
        patches = maps[:, :, self.prefix :].unflatten(2, self.grid)
        return [patches, *(maps[:, :, i] for i in range(self.prefix))]

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """Undo `split`."""
        maps = parts[0]
        if self.grid:
            maps = torch.cat([*(part[:, :, None] for part in parts[1:]), maps.flatten(2)], dim=2)
        return maps.movedim(1, self.channel)

    def spaces(self, shape: Sequence[int]) -> list[tuple[int, ...]]:
        """The spatial axes of every part of a tensor of that shape, which is without the batch axis."""
        return [tuple(part.shape[2:]) for part in self.split(torch.empty(1, *shape, device="meta"))]


@final
@dataclass(frozen=True)
class Site:
    """A place in a network: the output of a module, of a function called inside a module, or an input.

    Args:
        name: what users see and files keep: `layer1.0.bn1`, `layer1.0.bn1#2` for a module's second call in one forward
            pass, `stem.norm:batch_norm` for the value of a function called inside a module, `input`.
        kind: the type of the module, or the function.
        shape: of the tensor, without the batch axis.
        layout: which of its axes mean what.
        calls: how often a forward pass calls its module.
        per_image: entries of the batch axis that one image has, such as windows.
        source: the module whose output nothing but the module of the site takes, if there is one.

    >>> site = Site("stem.norm:batch_norm", "batch_norm", (8, 4, 4), Layout(channel=1))
    >>> site.module, site.function, site.is_input
    ('stem.norm', 'batch_norm', False)
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    layout: Layout
    calls: int = 1
    per_image: int = 1
    source: str = ""

    @property
    def is_input(self) -> bool:
        """Whether it is an input of the network."""
        return self.name == INPUT or self.name.startswith(f"{INPUT}[")

    @property
    def module(self) -> str:
        """The name of the module whose forward pass the site is in."""
        return self.name.partition("#")[0].partition(":")[0]

    @property
    def function(self) -> str:
        """The function whose value is meant, or nothing if it is the module's own output."""
        return self.name.partition("#")[0].partition(":")[2]

    def check_shape(self, x: Tensor) -> None:
        """Refuse features of another shape than those that were fitted."""
        if tuple(x.shape[1:]) != self.shape:
            raise InputError(
                f"Site {self.name!r} has features of shape {tuple(x.shape[1:])}; they were {self.shape} when it was "
                "fitted. Resize the images, so that all have one size, or fit again on images of this size."
            )


@final
@dataclass(frozen=True)
class Sites(Sequence[Site]):
    """The sites of a network, in the order of a forward pass.

    Args:
        sites: one or more.

    >>> Sites((Site("input", "input", (3, 8, 8), Layout(channel=1)),)).names
    ['input']
    """

    sites: tuple[Site, ...]

    @overload
    def __getitem__(self, index: int) -> Site: ...
    @overload
    def __getitem__(self, index: slice) -> "Sites": ...
    def __getitem__(self, index: int | slice) -> "Site | Sites":
        return Sites(self.sites[index]) if isinstance(index, slice) else self.sites[index]

    def __len__(self) -> int:
        return len(self.sites)

    def __iter__(self) -> Iterator[Site]:
        return iter(self.sites)

    @property
    def names(self) -> list[str]:
        """The name of every site."""
        return [site.name for site in self.sites]

    def describe(self) -> None:
        """Print the sites as a table."""
        print(self)

    def __repr__(self) -> str:
        rows = [(site.name, site.kind, times(site.shape), _reading(site)) for site in self.sites]
        return table(("site", "after", "shape", "read as"), rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of text under their headings.

    >>> print(table(("a", "b"), [("1", "22")]))
    a  b
    ─  ──
    1  22
    """
    widths = [max(len(line[i]) for line in [head, *rows]) for i in range(len(head))]
    lines = [head, ["─" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def times(shape: Sequence[int]) -> str:
    """A shape in words: 3 × 32 × 32."""
    return " × ".join(map(str, shape))


def _reading(site: Site) -> str:
    space = list(site.shape)
    channels = space.pop(site.layout.channel - 1)
    if site.layout.grid:
        apart = f" + {site.layout.prefix} apart" if site.layout.prefix else ""
        return f"{channels} channels of {times(site.layout.grid)}{apart}"
    return f"{channels} channels of {times(space)}" if prod(space) > 1 else f"{channels} features"


def sites(model: nn.Module, example: Any, choose: Choice | None = None, *, at: str = "pre-activation") -> Sites:
    """The sites of a network: its input and the pre-activations of its main branch, unless chosen otherwise.

    A twin of the network runs once on a few of the images.

    Args:
        model: the trained network; it stays as it was.
        example: a batch as a loader yields it: a tensor, a tuple of several inputs, or a dictionary.
        choose: names or patterns such as ["input", "layer1.*"], types of modules, or a function of the site; all unless
            given.
        at: "pre-activation", "post-activation", "input", or "module" for the output of every module.

    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    >>> sites(net, torch.zeros(2, 3, 8, 8)).names
    ['input', '0']
    """
    several = isinstance(example, list | tuple) and all(map(is_features, example))
    inputs = Inputs(tuple(example)) if several else Inputs.of(example)
    few = inputs.on(model).at(slice(EXAMPLE))
    if not few.images:
        raise InputError("An example needs at least one image, so that a forward pass can be looked at; got none.")
    record = _trace(model, few)
    found = [Site(name, "input", record.nodes[i].shape[1:], Layout(channel=1)) for name, i in record.inputs.items()]
    found += [_site(record, node, few.images) for node in _nodes_at(at, record) if _is_batch(node, few.images)]
    if not found:
        raise SiteError(
            f"{type(model).__name__} has no place to match: none of its inputs is a batch of floating-point features."
        )
    return Sites(tuple(found if choose is None else _chosen(found, choose, model)))


def _trace(model: nn.Module, inputs: Inputs) -> Trace:
    try:
        return trace(twin_of(model), inputs)
    except (RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, ShiftMatchError):
            raise
        shapes = ", ".join(str(tuple(x.shape[1:])) for x in inputs.tensors())
        raise InputError(
            f"{type(model).__name__} does not run on inputs of shape {shapes}: {error}. "
            "Pass batches as the network takes them: right channels and size, normalised, in floating point."
        ) from error


def _nodes_at(place: str, record: Trace) -> list[Node]:
    match place:
        case "pre-activation":
            return Flow(record).pre_activations()
        case "post-activation":
            return Flow(record).post_activations()
        case "module":
            returned = sorted({call.returns for call in record.calls} - {*record.inputs.values()})
            return [record.nodes[index] for index in returned if len(record.nodes[index].shape) >= 2]
        case "input":
            return []
    raise InputError(f"at is 'pre-activation', 'post-activation', 'input' or 'module'; got {place!r}.")


def _is_batch(node: Node, images: int) -> bool:
    """Whether the first axis holds the images; a sequence-first layer has its steps there."""
    return node.batch == 0 and node.shape[0] % images == 0


def _site(record: Trace, node: Node, images: int) -> Site:
    """The site of a value, named by the innermost module that returns it, else by the function that made it."""
    call = next((call for call in record.calls if call.returns == node.index), None)
    name, kind = (call.address, type(call.module).__name__) if call else (node.address, node.function)
    calls = sum(name.partition("#")[0] == other.address.partition("#")[0] for other in record.calls) if call else 1
    source = _source(record, call) if call else ""
    return Site(name, kind, node.shape[1:], _layout(record, node), calls, node.shape[0] // images, source)


def _source(record: Trace, call: Call) -> str:
    """The module of a weight layer whose output nothing but this call takes, if there is one."""
    made = next((other for other in record.calls if other.returns == call.takes), None)
    taken = [node.index for node in record.nodes if call.takes in node.inputs]
    unshared = call.takes not in record.outputs and all(index in call.inside for index in taken)
    fresh = record.nodes[call.takes].function in WEIGHTS
    return made.address.partition("#")[0] if made and unshared and fresh else ""


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
    rules = [choose] if isinstance(choose, str) or callable(choose) else list(choose)
    for rule in rules:
        if not any(_follows(site, rule, model) for site in found):
            raise SiteError(
                f"No site fits {rule!r}. Those to choose from are: {', '.join(site.name for site in found)}. "
                "Other places: at='module' lists them all."
            )
    return [site for site in found if any(_follows(site, rule, model) for rule in rules)]


def _follows(site: Site, rule: str | type[nn.Module] | Callable[[Site], bool], model: nn.Module) -> bool:
    if isinstance(rule, str):
        return fnmatchcase(site.name, rule)
    if isinstance(rule, type):
        return not site.is_input and isinstance(model.get_submodule(site.module), rule)
    return rule(site)
