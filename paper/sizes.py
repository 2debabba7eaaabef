"""From a thousand images in a batch to one at a time: what matching gains at each size, and in streams with memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from math import inf
from operator import add
from pathlib import Path

import torch
from jaxtyping import Int64
from matplotlib.figure import Figure
from torch import Tensor, nn

from paper.cifar import released, released_batches, released_preprocess
from paper.claims import CLEAN, Claim, Z, mean, promised
from paper.run import Figures, Root
from shiftmatch.corruptions import PAPER as CORRUPTIONS
from shiftmatch.data.inventory import Severity
from shiftmatch.evaluation.evaluate import Predictor, evaluate
from shiftmatch.evaluation.scores import Mean, Scores
from shiftmatch.evaluation.suites import Suite, cifar10_c
from shiftmatch.matching.average import average
from shiftmatch.matching.match import fit, match
from shiftmatch.matching.statistics import Statistics
from shiftmatch.matching.stream import stream
from shiftmatch.report.figures import COLOURS
from shiftmatch.shapes import Pixels

PLAIN, STREAM, CHANGING = "plain", "spectrum, one at a time", "spectrum, one at a time, changing"
MOMENTS_PRIORS = (16, 64)
"""Images that the training statistics count for in channel moments; at each size the better one is compared with."""

STRIDE = 5
"""Corruptions between one and the next of a stream that changes, so that neighbours are of other kinds."""


class ChangingSuite(Suite):
    """Every `period` images another corruption; a cell is called after the first one."""

    period = 500

    def cells(self) -> Iterator[tuple[str, Severity]]:
        """Every fourth start: in four parts of a stream each corruption comes once, on images of its own."""
        return ((name, severity) for name in self.corruptions[::4] for severity in self.severities)

    def images(self, corruption: str, severity: Severity, index: Int64[Tensor, "b"] | None = None) -> Pixels:
        index = torch.arange(len(self)) if index is None else index
        first, out = self.corruptions.index(corruption), self.clean.images[index].clone()
        for part in (index // self.period).unique().tolist():
            now = self.corruptions[(first + STRIDE * part) % len(self.corruptions)]
            here = index // self.period == part
            out[here] = super().images(now, severity, index[here])
        return out


class Camera(nn.Module):
    """Probabilities of a network with memory, which forgets before each cell."""

    def __init__(self, network: nn.Module, statistics: Statistics) -> None:
        super().__init__()
        self.stream = stream(network, statistics)

    def forward(self, x: Tensor) -> Tensor:
        return self.stream(x).softmax(-1)  # type: ignore[no-any-return]

    def reset(self) -> None:
        self.stream.reset()


@dataclass(frozen=True)
class BatchSizes:
    """The released ResNet-20 under every corruption, in batches of several sizes, and in streams of single images."""

    depth: int = 20
    images: int = 2000
    train: int = 4000
    sizes: tuple[int, ...] = (1000, 200, 64, 16, 8)
    corruptions: tuple[str, ...] = CORRUPTIONS
    period: int = 500
    severity: int = 5
    workers: int = 2

    def run(self, data: Root, folder: Path) -> Scores:
        """Score every size, each method under a name that has the size in it."""
        network = released(self.depth, data)
        statistics = fit(network, released_batches(self.train, data))
        suite = cifar10_c(data, corruptions=self.corruptions, severities=(self.severity,), limit=self.images)
        matched = {
            f"channel moments ({prior})": average([match(network, statistics, prior_images=(prior, inf))])
            for prior in MOMENTS_PRIORS
        } | {"spectrum": average([match(network, statistics)])}
        plain, camera = average([network]), Camera(network, statistics)
        changing = self.changing(suite)
        found = [self._scores({PLAIN: plain}, suite, self.sizes[0], folder / "cells")]
        for size in self.sizes:
            named: Mapping[str, Predictor] = {named_size(name, size): each for name, each in matched.items()}
            found.append(self._scores(named, suite, size, folder / "cells"))
        found.append(self._scores({STREAM: camera}, suite, 1, folder / "cells"))
        found.append(self._scores({CHANGING: camera}, changing, 1, folder / f"changing-{self.period}"))
        provenance = {**found[0].provenance, "sizes": list(self.sizes), "period": self.period}
        return replace(reduce(add, found), provenance=provenance)

    def changing(self, suite: Suite) -> ChangingSuite:
        """The images of a suite, in a stream that changes."""
        parts = (suite.name, suite.clean, suite.corruptions, suite.severities, suite.stored, suite.seed, suite.root)
        made = ChangingSuite(*parts)
        object.__setattr__(made, "period", self.period)
        return made

    def _scores(self, methods: Mapping[str, Predictor], suite: Suite, size: int, folder: Path) -> Scores:
        return evaluate(
            methods,
            suite,
            preprocess=released_preprocess,
            batch_size=size,
            folder=folder,
            workers=self.workers,
            include_clean=not isinstance(suite, ChangingSuite),
            data=f"resnet{self.depth} · cifar10-c",
            note={"statistics from": self.train},
        )

    def plot(self, scores: Scores) -> Figures:
        """Accuracy against the size of the batch, with 95 % intervals."""
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.add_subplot()
        base = 100 * mean(scores, PLAIN).value
        axes.axhline(base, color=COLOURS[0], linestyle=":", label=f"plain ({base:.1f})")
        for colour, name in ((COLOURS[1], f"channel moments ({MOMENTS_PRIORS[0]})"), (COLOURS[2], "spectrum")):
            points = [mean(scores, named_size(name, size)) for size in self.sizes]
            _line(axes, self.sizes, points, color=colour, marker="o", label=name)
        _line(axes, [1], [mean(scores, STREAM)], color=COLOURS[2], marker="s", label=STREAM)
        _line(
            axes, [1], [mean(scores, CHANGING)], color=COLOURS[3], marker="D", label=f"{CHANGING} every {self.period}"
        )
        axes.set_xscale("log")
        axes.set_xticks([1, *self.sizes], [str(size) for size in (1, *self.sizes)])
        axes.minorticks_off()
        axes.set(xlabel="images in a batch", ylabel=f"accuracy in %, severity {self.severity}")
        axes.legend(frameon=False, fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        return {"curve": figure}

    def compare(self, scores: Scores) -> list[Claim]:
        """Not in the paper: what this package promises for every size."""
        claims = []
        for size in self.sizes:
            names = [named_size(f"channel moments ({prior})", size) for prior in MOMENTS_PRIORS]
            best = max(names, key=lambda name: mean(scores, name).value)
            what = f"batch {size}: the spectrum is not below channel moments with their better prior"
            claims.append(promised(what, _gain(scores, named_size("spectrum", size), best), 0.0))
        if {16, 1000} <= set(self.sizes):
            less = _gain(scores, named_size("spectrum", 16), named_size("spectrum", 1000))
            allowed = -0.04 * mean(scores, named_size("spectrum", 1000)).value
            claims.append(promised("batch 16 keeps 96 % of what batch 1,000 has", less, allowed))
        for size, allowed in ((64, -0.01), (16, -0.025)):
            if size in self.sizes:
                loss = _gain(scores.where(corruption=CLEAN), named_size("spectrum", size), PLAIN, clean=True)
                claims.append(promised(f"batch {size}: clean within {-100 * allowed:g} points of plain", loss, allowed))
        if 200 in self.sizes:
            batch = named_size("spectrum", 200)
            claims.append(
                promised("a stream of single images: within 1.5 of batch 200", _gain(scores, STREAM, batch), -0.015)
            )
            what = f"a stream that changes every {self.period} images: within 3 of batch 200"
            claims.append(promised(what, _gain(scores, CHANGING, batch), -0.03))
        return claims


def named_size(method: str, size: int) -> str:
    """What tables call a method in batches of a size.

    >>> named_size("spectrum", 16)
    'spectrum, batch 16'
    """
    return f"{method}, batch {size}"


def _gain(scores: Scores, better: str, worse: str, *, clean: bool = False) -> Mean:
    """The difference of two means, tested image by image."""
    cells = [name for name in scores.values("corruption") if clean or name != CLEAN]
    chosen = scores.where(metric="accuracy", corruption=cells)
    paired = chosen.difference(better, worse)
    n = next(iter(chosen)).n
    values = [mean(scores, name, clean=clean).value for name in (better, worse)]
    return Mean(values[0] - values[1], None if paired is None else paired.stderr, n)


def _line(axes: object, sizes: object, points: list[Mean], **style: object) -> None:
    axes.errorbar(  # type: ignore[attr-defined]
        sizes,
        [100 * each.value for each in points],
        [100 * Z * (each.stderr or 0.0) for each in points],
        capsize=2,
        **style,
    )
