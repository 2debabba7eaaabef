"""Batches that are not what matching assumes: of few classes, of classes that come in runs, of several corruptions."""

from dataclasses import dataclass, replace
from functools import reduce
from math import inf, sqrt
from operator import add
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor, nn

from paper.cifar import AUTO, PLAIN, released, released_batches, released_preprocess
from paper.claims import CLEAN, Claim, stated
from paper.run import Figures, Root
from shiftmatch.corruptions import PAPER as CORRUPTIONS
from shiftmatch.data.images import Labelled
from shiftmatch.data.inventory import load
from shiftmatch.evaluation import streams
from shiftmatch.evaluation.evaluate import evaluate
from shiftmatch.evaluation.methods import Plain
from shiftmatch.evaluation.scores import Mean, Scores, Severity
from shiftmatch.evaluation.suites import Suite
from shiftmatch.matching.average import average
from shiftmatch.matching.match import fit, match
from shiftmatch.shapes import Pixels
from shiftmatch.utils.files import data_folder

UNAWARE, ONE_GROUP, KNOWN_GROUPS = "auto, unaware", "auto, one group", "auto, known groups"
IID, HALF_CLEAN, FOUR, AND = "i.i.d.", "half clean", "four corruptions", " + "
CLASSES = 10

MAX_LOSS, MIN_GAIN, MAX_CHANGE, MIN_GAP = 0.01, 0.6, 0.003, 0.5
"""What is aimed at: the accuracy that few classes may cost beside plain, the part of the i.i.d. gain that they keep,
what ordinary batches may change by, and the part of the way from one group to known groups that found groups go."""

QUADRUPLES = tuple(AND.join(CORRUPTIONS[i::4]) for i in range(4))
"""Corruptions of a kind are neighbours in the list, so that each mixture has several kinds."""


@dataclass(frozen=True)
class FewClasses:
    """A released ResNet on so many batches of each kind, of test images that have all classes equally often.

    In batches of few classes each set of classes has its turn. Intervals take batches, not images, as the sample: all
    images of a batch share what is decided for it.
    """

    depth: int = 20
    train: int = 4000
    batch: int = 200
    few: tuple[tuple[int, int], ...] = ((1, 10), (2, 5), (5, 4))  # classes in a batch, batches
    iid: int = 4
    runs: tuple[tuple[float, int], ...] = ((0.1, 4), (1.0, 4))  # α of Dirichlet streams, batches
    mixed: int = 2
    corruptions: tuple[str, ...] = CORRUPTIONS
    quadruples: tuple[str, ...] = QUADRUPLES
    severity: int = 5
    seed: int = 0

    def run(self, data: Root, folder: Path) -> Scores:
        """Score plain and auto on every kind of batch; mixtures also with known groups and without any."""
        network = released(self.depth, data)
        known = fit(network, released_batches(self.train, data), progress=False)
        blind = replace(known, fingerprint=None)
        unaware = replace(blind, sites={name: replace(entry, classes=()) for name, entry in blind.items()})
        one_group = match(network, blind, strength="auto")
        usual: dict[str, nn.Module] = {PLAIN: Plain(network), AUTO: match(network, known, strength="auto")}
        found = []
        for name, suite in self.suites(data).items():
            own: dict[str, nn.Module] = {}
            if name == IID:
                own = {UNAWARE: match(network, unaware, strength="auto")}
            elif isinstance(suite, Mixtures):
                kinds = len(suite.corruptions[0].split(AND))
                own = {ONE_GROUP: one_group, KNOWN_GROUPS: Apart(one_group, kinds)}
            methods = {method: average([robust]) for method, robust in (usual | own).items()}
            scores = evaluate(
                methods,
                suite,
                preprocess=released_preprocess,
                batch_size=self.batch,
                include_clean=not isinstance(suite, Mixtures),
                folder=folder / "cells",
                data=name,
                note={"statistics from": self.train},
            )
            found.append(replace(scores, provenance={name: scores.provenance}))
        return reduce(add, found)

    def suites(self, data: Root) -> dict[str, Suite]:
        """Every kind of batches, in the order in which they are to be cut from a suite."""
        test = load("cifar10", root=data)
        found = {IID: self._suite(test, balanced(test.labels, CLASSES, self.iid, self.batch), IID, data)}
        for classes, count in self.few:
            found[few(classes)] = self._suite(
                test, balanced(test.labels, classes, count, self.batch), few(classes), data
            )
        for alpha, count in self.runs:
            name, index = f"Dirichlet {alpha:g}", balanced(test.labels, CLASSES, count, self.batch)
            stream = streams.batches(f"dirichlet:{alpha}", self._suite(test, index, name, data), seed=self.seed)
            found[name] = self._suite(test, index[stream.index], name, data)
        index = balanced(test.labels, CLASSES, self.mixed, self.batch)
        halves = tuple(f"{CLEAN}{AND}{corruption}" for corruption in self.corruptions)
        for name, mixtures in ((HALF_CLEAN, halves), (FOUR, self.quadruples)):
            suite = self._suite(test, index, name, data)
            found[name] = Mixtures(suite.name, suite.clean, mixtures, (self.severity,), (), self.seed, suite.root)
        return found

    def _suite(self, test: Labelled, index: Int64[Tensor, "n"], name: str, data: Root) -> Suite:
        clean = Labelled(test.images[index], test.labels[index], f"{test.name}, {name}", test.source)
        return Suite("cifar10-c", clean, self.corruptions, (self.severity,), (), self.seed, data_folder(data))

    def plot(self, scores: Scores) -> Figures:
        """The mean over the corruptions, for each kind of batches."""
        figure = Figure(figsize=(9.0, 3.6), layout="constrained")
        axes = figure.add_subplot()
        kinds, methods = scores.values("data"), scores.values("method")
        width = 0.85 / len(methods)
        means = scores.means(by=("data", "method"))
        for number, method in enumerate(methods):
            values = [means[kind, method].value if (kind, method) in means else 0.0 for kind in kinds]
            axes.bar([place + number * width for place in range(len(kinds))], values, width, label=method)
        axes.set_xticks([place + 0.4 for place in range(len(kinds))], kinds)
        axes.set(ylabel="accuracy", ylim=(0, 1))
        axes.legend(frameon=False, fontsize=7, ncols=len(methods), loc="upper center")
        axes.spines[["top", "right"]].set_visible(False)
        return {"accuracy": figure}

    def compare(self, scores: Scores) -> list[Claim]:
        """What this package aims at; the paper has no such experiment."""
        aims = []
        ordinary = self._gains(scores, IID, AUTO, PLAIN, clean=False)
        for classes, _ in self.few:
            own = self._gains(scores, few(classes), AUTO, PLAIN, clean=False)
            aims += self._no_harm(scores, few(classes))
            if classes > 1:
                what = f"{few(classes)}: part of the i.i.d. gain that auto keeps"
                kept = ratio(own.mean(0), ordinary.mean(0))
                aims.append(stated(what, kept, (MIN_GAIN, inf), published="0.6 or more"))
        for alpha, _ in self.runs:
            aims += self._no_harm(scores, f"Dirichlet {alpha:g}")
        change = mean_of(self._gains(scores, IID, AUTO, UNAWARE).mean(0))
        aims.append(points("i.i.d.: what knowing of classes and groups changes", change, (-MAX_CHANGE, MAX_CHANGE)))
        for name in (HALF_CLEAN, FOUR):
            closed, gap = (self._gains(scores, name, to, ONE_GROUP).mean(0) for to in (AUTO, KNOWN_GROUPS))
            what = f"{name}: part of the way from one group to known groups that found groups go"
            aims.append(stated(what, ratio(closed, gap), (MIN_GAP, inf), published="0.5 or more"))
            gain = mean_of(self._gains(scores, name, AUTO, PLAIN).mean(0))
            aims.append(points(f"{name}: auto above plain", gain, (0.0, inf)))
        return aims

    def _no_harm(self, scores: Scores, name: str) -> list[Claim]:
        gains = self._gains(scores, name, AUTO, PLAIN)
        worst = gains[gains.mean(1).argmin()]
        where = [CLEAN, *self.corruptions][gains.mean(1).argmin()]
        return [
            points(f"{name}: auto above plain", mean_of(gains.mean(0)), (-MAX_LOSS, inf)),
            points(f"{name}: the same where it is worst ({where})", mean_of(worst), (-MAX_LOSS, inf)),
        ]

    def _gains(self, scores: Scores, name: str, better: str, worse: str, *, clean: bool = True) -> NDArray[np.float64]:
        """How much more accurate one method is than another: (corruptions, batches)."""
        rows = scores.where(data=name, metric="accuracy", method=better)
        if not clean:
            rows = rows.where(corruption=[c for c in rows.values("corruption") if c != CLEAN])
        pairs = [(scores.correct[row.key], scores.correct[row.key._replace(method=worse)]) for row in rows]
        differences = np.array([one.astype(np.float64) - other for one, other in pairs])
        found: NDArray[np.float64] = differences.reshape(len(pairs), -1, self.batch).mean(-1)
        return found


class Mixtures(Suite):
    """Images of several kinds in turn: the "corruption" "clean + fog" has every second image clean."""

    def images(self, corruption: str, severity: Severity, index: Int64[Tensor, "b"] | None = None) -> Pixels:
        """Those at `index`; an image's place in the set tells its kind."""
        places, kinds = torch.arange(len(self)) if index is None else index, corruption.split(AND)
        cells = [streams.CLEAN if kind == CLEAN else (kind, severity) for kind in kinds]
        made = tuple(kind for kind in kinds if kind != CLEAN)
        inner = Suite(self.name, self.clean, made, self.severities, (), self.seed, self.root)
        return streams.gather(inner, places, [cells[place % len(cells)] for place in places.tolist()])


class Apart(nn.Module):
    """Matches each of several kinds of images that come in turn by itself: the groups are known."""

    def __init__(self, network: nn.Module, kinds: int) -> None:
        super().__init__()
        self.network, self.kinds = network, kinds

    def forward(self, x: Tensor) -> Tensor:
        """What the network says of each image."""
        parts = [self.network(x[kind :: self.kinds]) for kind in range(self.kinds)]
        places = [torch.arange(kind, len(x), self.kinds) for kind in range(self.kinds)]
        return torch.cat(parts)[torch.cat(places).argsort()]


def few(classes: int) -> str:
    """What tables call batches of so many classes.

    >>> few(1), few(2)
    ('1 class', '2 classes')
    """
    return f"{classes} class" if classes == 1 else f"{classes} classes"


def balanced(labels: Int64[Tensor, "n"], classes: int, count: int, batch: int) -> Int64[Tensor, "m"]:
    """Places of images for so many batches of so many classes each, mixed; each set of classes has its turn.

    >>> labels = torch.arange(10).repeat(4)
    >>> labels[balanced(labels, 1, 2, 4)].tolist(), labels[balanced(labels, 10, 1, 10)].sort().values.tolist()
    ([4, 4, 4, 4, 6, 6, 6, 6], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    draw = np.random.default_rng(0)
    order = draw.permutation(CLASSES).tolist()
    sets = [order[first : first + classes] for first in range(0, CLASSES, classes)]
    of_class = [(labels == k).nonzero()[:, 0] for k in range(CLASSES)]
    found, each = [], batch // classes
    for number in range(count):
        first = number // len(sets) * each
        members = [of_class[k] for k in sets[number % len(sets)]]
        parts = [own[torch.arange(first, first + each) % len(own)] for own in members]
        found.append(torch.cat(parts)[torch.from_numpy(draw.permutation(each * classes))])
    return torch.cat(found)


def mean_of(batches: NDArray[np.float64]) -> Mean:
    """The mean over batches, with its standard error; none for one batch."""
    count = len(batches)
    return Mean(float(batches.mean()), float(batches.std(ddof=1)) / sqrt(count) if count > 1 else None, None)


def ratio(part: NDArray[np.float64], whole: NDArray[np.float64]) -> Mean:
    """The ratio of two means over batches, by the delta method; over the same batches it knows that they go together.

    >>> ratio(np.array([1.0, 2.0]), np.array([2.0, 4.0]))
    Mean(value=0.5, stderr=0.0, n=None)
    """
    value = float(part.mean() / whole.mean()) if whole.mean() else 0.0
    if len(part) == len(whole):
        error = mean_of(part - value * whole).stderr
    else:
        one, other = mean_of(part).stderr, mean_of(value * whole).stderr
        error = sqrt(one**2 + other**2) if one is not None and other is not None else None
    return Mean(value, error / abs(float(whole.mean())) if error is not None and whole.mean() else None, None)


def points(what: str, found: Mean, accepted: tuple[float, float]) -> Claim:
    """A statement about accuracy, in points."""
    low, high = (f"{100 * end:+.1f}" for end in accepted)
    aim = f"{low} or more" if accepted[1] == inf else f"{low} to {high}"
    return stated(what, found, accepted, published=aim, scale=100, unit=" points")
