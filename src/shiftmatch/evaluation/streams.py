"""Streams: the order in which a network sees images, and the corruption of each.

A stream is planned before it is cut into batches: its name, the suite and the seed fix which image comes when and
how it is corrupted, whatever the size of the batches. Every image comes exactly once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product
from math import ceil

import numpy as np
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor

from shiftmatch.data.inventory import Severity
from shiftmatch.errors import InputError
from shiftmatch.evaluation.suites import Suite
from shiftmatch.shapes import Pixels

__all__ = ["Stream", "batches", "parse"]

Cell = tuple[str, Severity]

CLEAN: Cell = ("clean", None)
DEFAULTS = {"iid": None, "mixture": 0.5, "dirichlet": 0.1, "gradual": None}


@dataclass(frozen=True, eq=False)
class Stream:
    """A planned stream: at each place the position of an image in the suite, and its corruption and severity.

    Args:
        suite: where the images come from.
        index: at each place of the stream, the position of an image in the suite.
        cells: at each place, the corruption and its severity.
        batch_size: images in a batch.

    >>> from shiftmatch.data.images import Labelled
    >>> clean = Labelled(torch.zeros(10, 3, 32, 32, dtype=torch.uint8), torch.arange(10), "zeros", "made up")
    >>> suite = Suite("cifar10-c", clean, corruptions=("contrast",), severities=(5,))
    >>> len(Stream(suite, torch.arange(10), (("contrast", 5),) * 10, batch_size=4))
    3
    """

    suite: Suite
    index: Int64[Tensor, "n"]
    cells: tuple[Cell, ...]
    batch_size: int

    def __len__(self) -> int:
        """The number of batches; the last may be smaller."""
        return ceil(len(self.index) / self.batch_size)

    def __iter__(self) -> Iterator[tuple[Pixels, Int64[Tensor, "b"]]]:
        for start in range(0, len(self.index), self.batch_size):
            places = slice(start, start + self.batch_size)
            index = self.index[places]
            yield gather(self.suite, index, self.cells[places]), self.suite.labels[index]


def batches(
    name: str,
    suite: Suite,
    *,
    batch_size: int = 200,
    seed: int = 0,
    corruptions: str | Sequence[str] | None = None,
    severity: Severity = None,
) -> Stream:
    """The stream of this name over a suite, in batches of uint8 images and labels.

    - "iid": images in random order, so that every batch mixes the classes;
    - "mixture:0.5": the same, but this share of every batch is clean (0.5 is the paper's mixture);
    - "dirichlet:0.1": labels come in runs: each class is spread over the stream by proportions ~ Dirichlet(α), so
      that the smaller α is, the fewer classes share a batch;
    - "gradual": one corruption after the other, each with its severity rising and then falling.

    Args:
        name: one of these.
        suite: where the images come from; each comes exactly once.
        batch_size: images in a batch.
        seed: fixes the order.
        corruptions: one, several (drawn for each image, in equal numbers), or all that the suite has.
        severity: the suite's last unless given; a gradual stream rises to it through all that are below.

    >>> from shiftmatch.data.images import Labelled
    >>> clean = Labelled(torch.zeros(10, 3, 32, 32, dtype=torch.uint8), torch.arange(10), "zeros", "made up")
    >>> suite = Suite("cifar10-c", clean, corruptions=("brightness", "contrast"), severities=(1, 3, 5))
    >>> [(tuple(images.shape), len(labels)) for images, labels in batches("mixture:0.5", suite, batch_size=4)]
    [((4, 3, 32, 32), 4), ((4, 3, 32, 32), 4), ((2, 3, 32, 32), 2)]
    """
    if batch_size < 1:
        raise InputError(f"A batch has at least one image, not {batch_size}.")
    kind, value = parse(name)
    order, draw = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1])
    chosen, level = _choose(suite, corruptions, severity)
    index = _in_runs(suite.labels.numpy(), value, order) if kind == "dirichlet" else order.permutation(len(suite))
    if kind == "gradual":
        below: list[Severity] = [s for s in sorted(s or 0 for s in suite.severities) if s < (level or 0)]
        cells = _rising_and_falling(chosen, [*below, level], len(suite))
    else:
        cells = _drawn([(corruption, level) for corruption in chosen], len(suite), draw)
    if kind == "mixture":
        cells = _partly_clean(cells, value)
    return Stream(suite, torch.from_numpy(index), tuple(cells), batch_size)


def parse(name: str) -> tuple[str, float]:
    """The kind of a stream and its number.

    Args:
        name: of a stream, with or without its number.

    >>> parse("mixture:0.25"), parse("dirichlet")
    (('mixture', 0.25), ('dirichlet', 0.1))
    """
    kind, _, number = name.partition(":")
    default = DEFAULTS.get(kind)
    try:
        value = float(number) if number else default or 0.0
    except ValueError:
        value = np.nan
    in_range = {"mixture": 0 <= value <= 1, "dirichlet": 0 < value < np.inf}.get(kind, not number)
    if kind not in DEFAULTS or not in_range:
        raise InputError(
            f"There is no stream {name!r}; there are iid, gradual, mixture:SHARE (0 to 1), dirichlet:ALPHA (over 0)."
        )
    return kind, value


def _choose(
    suite: Suite, corruptions: str | Sequence[str] | None, severity: Severity
) -> tuple[tuple[str, ...], Severity]:
    chosen = (corruptions,) if isinstance(corruptions, str) else tuple(corruptions or suite.corruptions)
    level = suite.severities[-1] if severity is None else severity
    if unknown := set(chosen) - set(suite.corruptions):
        raise InputError(f"The suite has no {min(unknown)!r}; it has {', '.join(suite.corruptions)}.")
    if level not in suite.severities:
        raise InputError(f"The suite has no severity {level}; it has {suite.severities}.")
    return chosen, level


def _in_runs(labels: NDArray[np.int64], alpha: float, order: np.random.Generator) -> NDArray[np.int64]:
    """Cut the stream into as many stretches as there are classes; each class is dealt out by Dirichlet(α) shares."""
    classes = np.unique(labels)
    stretch = np.zeros_like(labels)
    for kind in classes:
        members = order.permutation(np.flatnonzero(labels == kind))
        ends = np.cumsum(order.dirichlet(np.full(len(classes), alpha)))[:-1]
        stretch[members] = np.searchsorted(ends, (np.arange(len(members)) + 0.5) / len(members))
    return np.lexsort((order.random(len(labels)), stretch))


def _drawn(cells: Sequence[Cell], places: int, draw: np.random.Generator) -> list[Cell]:
    """Each cell equally often (within one), in random order."""
    return [cells[number % len(cells)] for number in draw.permutation(places)]


def _partly_clean(cells: Sequence[Cell], share: float) -> list[Cell]:
    """Place i is clean when ⌊(i+1)·share⌋ > ⌊i·share⌋: any stretch of the stream has that share, within one image."""
    steps = np.floor(np.arange(len(cells) + 1) * share)
    return [CLEAN if clean else cell for cell, clean in zip(cells, np.diff(steps) > 0, strict=True)]


def _rising_and_falling(corruptions: Sequence[str], severities: Sequence[Severity], places: int) -> list[Cell]:
    """Phases of equal length: severities up and down again, for each corruption in turn."""
    phases = list(product(corruptions, (*severities, *severities[-2::-1])))
    return [phases[place * len(phases) // places] for place in range(places)]


def gather(suite: Suite, index: Int64[Tensor, "b"], cells: Sequence[Cell]) -> Pixels:
    """The images of a batch, fetched cell by cell and put back in their places."""
    places = {cell: [place for place, other in enumerate(cells) if other == cell] for cell in dict.fromkeys(cells)}
    images = [
        suite.clean.images[index[at]] if cell == CLEAN else suite.images(*cell, index[at])
        for cell, at in places.items()
    ]
    return torch.cat(images)[torch.tensor([*chain.from_iterable(places.values())]).argsort()]
