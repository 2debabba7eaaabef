"""A site: a place in a network where features are matched, and how to read its tensor as features."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import final, overload

import torch
from torch import Tensor

INPUT = "input"
"""The site of the network's own input; with several inputs, `input[argument]`."""


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
        """The features in a tensor: the map (b c *space), then each token that stands apart (b c).

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
        """The axes of space of every part of a tensor of that shape, which is without the batch axis."""
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
    kind: str  # the type of the module, or the function
    shape: tuple[int, ...]  # of the tensor, without the batch axis
    layout: Layout
    calls: int = 1  # how often a forward pass calls its module
    per_image: int = 1  # entries of the batch axis that one image has, such as windows
    source: str = ""  # the module whose output nothing but the site's module takes

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
        return self.function_in(self.name)

    @staticmethod
    def function_in(name: str) -> str:
        """The function in the name of a site.

        >>> Site.function_in("stem.norm:batch_norm#2")
        'batch_norm'
        """
        return name.partition("#")[0].partition(":")[2]


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
        rows = [(site.name, site.kind, _times(site.shape), _reading(site)) for site in self.sites]
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


def _times(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape))


def _reading(site: Site) -> str:
    channels, *space = torch.empty(1, *site.shape, device="meta").movedim(site.layout.channel, 1).shape[1:]
    if site.layout.grid:
        apart = f" + {site.layout.prefix} apart" if site.layout.prefix else ""
        return f"{channels} channels of {_times(site.layout.grid)}{apart}"
    return f"{channels} channels of {_times(space)}" if prod(space) > 1 else f"{channels} features"
