"""The demo: six methods on MNIST-C, with networks and digits that ship with the package, and what matching does."""

import io
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from PIL import Image
from rich.table import Table
from torch import Tensor

from shiftmatch.core.distance import shift
from shiftmatch.core.spectrum import ChannelMoments, Prior
from shiftmatch.corruptions import corrupt
from shiftmatch.corruptions.registry import names
from shiftmatch.data.images import Labelled
from shiftmatch.demo import embedded
from shiftmatch.errors import InputError
from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.matching.average import Average, average
from shiftmatch.matching.match import fit
from shiftmatch.matching.matcher import SiteMatcher
from shiftmatch.matching.members import match_members
from shiftmatch.metrics.uncertainty import standard_error
from shiftmatch.report.grid import grid_of
from shiftmatch.report.markdown import corruption_table
from shiftmatch.report.measures import SHIFT
from shiftmatch.report.summary import compare, interval_note, losses, sentences
from shiftmatch.shapes import Images, Pixels
from shiftmatch.utils.parallel import one_thread, track

SUITE = "mnist-c"
CLEAN, MEAN = "clean", "mean"
PLAIN, OURS, PAPER = "HMC", "ShiftMatch", "ShiftMatch (paper's structure)"
SHOWN = ("impulse_noise", "motion_blur", "stripe", "fog", "canny_edges")
"""Corruptions that are looked at closely: noise, blur, an occlusion, weather, and one that changes everything."""

PICTURES = 8
"""Digits drawn of each."""

BATCH = 1000
"""Images that are matched as one batch."""

MAX_THREADS = 4
"""Each holds the features of one batch."""

Right = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Findings:
    """What the demo has measured."""

    settings: dict[str, Any]
    scores: Scores  # accuracies, which digits were right, and how far the features of every site have moved
    pictures: dict[str, tuple[Pixels, Pixels]]  # corruption -> digits before and after matching at the input
    seconds: float

    @property
    def accuracy(self) -> dict[str, dict[str, float]]:
        """Corruption -> method -> share of digits that are right; clean ones first, the mean over the others last."""
        rows = self.scores.where(metric="accuracy")
        table: dict[str, dict[str, float]] = {name: {} for name in rows.values("corruption")}
        for row in rows:
            table[row.corruption][row.method] = row.value
        means = rows.where(corruption=list(names(SUITE))).mean(by=("method",))
        return table | {MEAN: {method: value for (method,), value in means.items()}}

    def table(self) -> Table:
        """The accuracies, for a terminal."""
        return corruption_table(self.scores, baseline=PLAIN)

    def page(self) -> str:
        """Everything, as one HTML page."""
        settings = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        note = f"Measured here in {self.seconds:.0f} s: {settings}."
        return demo_page(self.scores, pictures=self.pictures, baseline=PLAIN, method=OURS, note=note)


@dataclass(frozen=True)
class MnistDemo:
    """MNIST-C on the first `images` embedded digits, with about `draws` of each posterior, evenly spread.

    >>> demo = MnistDemo(images=500)
    >>> demo.inputs(embedded.images().first(3), "fog").shape
    torch.Size([3, 1, 28, 28])
    """

    images: int = 1000
    draws: int = 5
    seed: int = 0

    def methods(self) -> dict[str, Average]:
        """What is compared; the last three see the same HMC draws as the first."""
        every = {
            name: slice(None, None, ceil(len(embedded.posterior(name)) / self.draws)) for name in embedded.POSTERIORS
        }
        draws = {name: embedded.posterior(name).models()[every[name]] for name in embedded.POSTERIORS}
        matched = {
            kind: match_members(draws["gaussian"], embedded.statistics("gaussian", kind)[every["gaussian"]])
            for kind in embedded.COVARIANCES
        }
        return {
            PLAIN: average(draws["gaussian"]),
            "EmpCov": average(draws["empcov"]),
            "ensemble": average(draws["ensemble"]),
            "test-time batchnorm": average(matched["ChannelMoments"]),
            OURS: average(matched["Spectrum"]),
            PAPER: average(matched["SpatialKronecker"]),
        }

    @one_thread()  # torch's own wait by spinning, which on a busy machine takes minutes
    def run(self, *, show: bool = True) -> Findings:
        """Measure everything; `show` says whether to show a progress bar."""
        start, digits, methods = time.perf_counter(), embedded.images().first(self.images), self.methods()

        def measure(name: str) -> tuple[str, dict[str, Right]]:
            x = self.inputs(digits, name)
            return name, {method: _right(predict, x, digits.labels) for method, predict in methods.items()}

        cells = (CLEAN, *names(SUITE))
        with ThreadPoolExecutor(min(MAX_THREADS, os.cpu_count() or 1)) as pool:
            found = dict(track(pool.map(measure, cells), "corrupting and predicting", total=len(cells), show=show))
        looked_at = {name: self.inputs(digits, name) for name in (CLEAN, *SHOWN)}
        pictures = {name: _before_and_after(x) for name, x in looked_at.items()}
        moved = {name: dict(_shifts(x)) for name, x in looked_at.items()}
        settings = asdict(self) | {"suite": SUITE, "network": "lenet"}
        return Findings(settings, self._scores(found, moved), pictures, time.perf_counter() - start)

    def inputs(self, digits: Labelled, corruption: str) -> Images:
        """The digits under a corruption, as the networks take them."""
        pixels = digits.images[torch.arange(len(digits))]
        if corruption != CLEAN:
            pixels = corrupt(pixels, corruption, suite=SUITE, seed=self.seed)
        return embedded.preprocess(pixels)

    def _scores(self, found: Mapping[str, Mapping[str, Right]], moved: Mapping[str, Mapping[str, float]]) -> Scores:
        rows, correct = [], {}
        for name, methods in found.items():
            for method, right in methods.items():
                value, stderr = float(right.mean()), standard_error(right)
                row = Score(method, SUITE, name, None, "accuracy", value, self.seed, len(right), stderr)
                rows.append(row)
                correct[row.key] = right
        for name, sites in moved.items():
            rows += [Score(PLAIN, SUITE, name, None, f"{SHIFT}{site}", far, self.seed) for site, far in sites.items()]
        origin = f"made from the digits of the package with seed {self.seed}"
        return Scores(rows, {"sources": dict.fromkeys(names(SUITE), origin)}, correct)


def _right(predict: Average, x: Images, labels: Tensor) -> Right:
    probabilities = torch.cat([predict(batch) for batch in x.split(BATCH)])
    right: Right = (probabilities.argmax(-1) == labels).numpy()
    return right


def _before_and_after(x: Float[Tensor, "n c h w"]) -> tuple[Pixels, Pixels]:
    """A few digits as they come, and after the first site, where all of them are matched as one batch."""
    after = SiteMatcher(embedded.statistics("gaussian")[-1]["input"], Prior(0, 0))(x)
    return embedded.pixels(x[:PICTURES]), embedded.pixels(after[:PICTURES])


def _shifts(x: Images) -> Iterator[tuple[str, float]]:
    """How far the channels of the last HMC draw are from where they were in training, site by site."""
    network, train = embedded.posterior("gaussian").models()[-1], embedded.statistics("gaussian", "ChannelMoments")[-1]
    here = fit(network, x, covariance=ChannelMoments(), progress=False)
    for name, entry in train.items():
        yield name, shift(here[name].parts[0][0], entry.parts[0][0])


GAP = 2
"""Pixels between digits."""

Pair = tuple[Pixels, Pixels]


def demo_page(scores: Scores, *, pictures: Mapping[str, Pair], baseline: str, method: str, note: str) -> str:
    """The page as text: the means of the methods as bars, the whole table, pictures, shifts of the features.

    `scores` are accuracies on one data set, and shifts; the headline compares `method` with `baseline`.
    """
    from markupsafe import Markup

    from shiftmatch.report.figures import inline_svg, layer_shift, mean_bars
    from shiftmatch.report.html import HeatTable, png_address, render

    grid = grid_of(scores, scores.values("data")[0], "accuracy")
    found = compare(grid, baseline, method)
    if found is None:
        raise InputError(f"The scores have no accuracies of both {baseline!r} and {method!r}; evaluate both.")
    show, change = grid.measure.show, found.overall
    images = f" ({change.after.n:,} images, corruptions made here)" if change.after.n else ""
    bars = mean_bars(scores, method=method)
    return render(
        "demo.html",
        title="shiftmatch demo",
        headline=f"Corrupted digits: {show(change.before.value)} right becomes {show(change.after.value)}{images}",
        sentences=[*sentences(found), losses(found)],
        interval_note=interval_note(found),
        means=Markup(inline_svg(bars, "accuracy of every method, mean over the corruptions")),
        baseline=baseline,
        table=HeatTable.of(grid, baseline),
        pictures={name: png_address(_sheet(*pair)) for name, pair in pictures.items()},
        shifts=Markup(inline_svg(layer_shift(scores), "how far the features of every layer have moved")),
        note=note,
    )


def _sheet(before: Pixels, after: Pixels) -> bytes:
    """A PNG file: grey digits side by side, the first row before and the second after."""
    rows, columns = before.shape[-2:]
    sheet = torch.full((2 * rows + GAP, len(before) * (columns + GAP) - GAP), 128, dtype=torch.uint8)
    for top, digits in ((0, before), (rows + GAP, after)):
        for index, digit in enumerate(digits[:, 0]):
            left = index * (columns + GAP)
            sheet[top : top + rows, left : left + columns] = digit
    Image.fromarray(sheet.numpy()).save(buffer := io.BytesIO(), "PNG", optimize=True)
    return buffer.getvalue()
