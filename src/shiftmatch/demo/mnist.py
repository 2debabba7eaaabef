"""The main job in small, on what ships with the package: five ways to meet MNIST-C, and what matching does."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from math import ceil
from statistics import fmean
from typing import Any

import torch
from jaxtyping import Float
from rich.table import Table
from torch import Tensor

from shiftmatch.core.covariance import ChannelMoments
from shiftmatch.core.distance import shift
from shiftmatch.core.spectrum import Prior
from shiftmatch.corruptions import corrupt
from shiftmatch.corruptions.registry import names
from shiftmatch.data.images import Labelled
from shiftmatch.demo import embedded
from shiftmatch.demo.page import demo_page
from shiftmatch.matching.average import Average, average
from shiftmatch.matching.match import fit
from shiftmatch.matching.matcher import SiteMatcher
from shiftmatch.matching.members import match_members
from shiftmatch.report.tables import accuracy_table
from shiftmatch.shapes import Images, Pixels
from shiftmatch.utils.parallel import one_thread
from shiftmatch.utils.progress import track

SUITE = "mnist-c"
CLEAN, MEAN = "clean", "mean"
PLAIN, OURS = "HMC", "ShiftMatch"
SHOWN = ("impulse_noise", "motion_blur", "stripe", "fog", "canny_edges")
"""Corruptions that are looked at closely: noise, blur, an occlusion, weather, and one that changes everything."""

PICTURES = 8
"""Digits drawn of each."""

BATCH = 1000
"""Images that are matched together."""

MOST_THREADS = 4
"""Each holds the features of one batch."""

Accuracy = dict[str, dict[str, float]]
"""Corruption -> method -> share of images that are right."""


@dataclass(frozen=True, eq=False)
class Findings:
    """What the demo has measured."""

    settings: dict[str, Any]
    accuracy: Accuracy  # clean, each corruption, and the mean of the corruptions
    pictures: dict[str, tuple[Pixels, Pixels]]  # corruption -> digits before and after matching at the input
    shift: dict[str, dict[str, float]]  # corruption -> site -> how far its features have moved
    seconds: float

    def table(self) -> Table:
        """The accuracies, for a terminal."""
        title = f"MNIST-C, {self.settings['images']:,} digits: accuracy in %"
        return accuracy_table(self.accuracy, title=title, last=MEAN)

    def page(self) -> str:
        """Everything, as one HTML page."""
        settings = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        return demo_page(
            accuracy=self.accuracy,
            pictures=self.pictures,
            shifts=self.shift,
            baseline=PLAIN,
            method=OURS,
            mean=MEAN,
            note=f"Measured here in {self.seconds:.0f} s: {settings}.",
        )


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
        """What is compared; the last two see the same HMC draws as the first."""
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
            OURS: average(matched["SpatialKronecker"]),
        }

    @one_thread()  # torch's own wait by spinning, which on a busy machine takes minutes
    def run(self, *, show: bool = True) -> Findings:
        """Measure everything; `show` says whether to show a progress bar."""
        start, digits, methods = time.perf_counter(), embedded.images().first(self.images), self.methods()

        def measure(name: str) -> tuple[str, dict[str, float]]:
            x = self.inputs(digits, name)
            return name, {method: _share_right(predict, x, digits.labels) for method, predict in methods.items()}

        cells = (CLEAN, *names(SUITE))
        with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as pool:
            rows = track(pool.map(measure, cells), "corrupting and predicting", total=len(cells), show=show)
            accuracy: Accuracy = dict(rows)
        accuracy[MEAN] = {method: fmean(accuracy[name][method] for name in names(SUITE)) for method in methods}
        looked_at = {name: self.inputs(digits, name) for name in (CLEAN, *SHOWN)}
        pictures = {name: _before_and_after(x) for name, x in looked_at.items()}
        moved = {name: dict(_shifts(x)) for name, x in looked_at.items()}
        settings = asdict(self) | {"suite": SUITE, "network": "lenet"}
        return Findings(settings, accuracy, pictures, moved, time.perf_counter() - start)

    def inputs(self, digits: Labelled, corruption: str) -> Images:
        """The digits under a corruption, as the networks take them."""
        pixels = digits.images[torch.arange(len(digits))]
        if corruption != CLEAN:
            pixels = corrupt(pixels, corruption, suite=SUITE, seed=self.seed)
        return embedded.preprocess(pixels)


def _share_right(predict: Average, x: Images, labels: Tensor) -> float:
    probabilities = torch.cat([predict(batch) for batch in x.split(BATCH)])
    return (probabilities.argmax(-1) == labels).double().mean().item()


def _before_and_after(x: Float[Tensor, "n c h w"]) -> tuple[Pixels, Pixels]:
    """A few digits as they come, and after the first site, where all of them are matched together."""
    after = SiteMatcher(embedded.statistics("gaussian")[-1]["input"], Prior(0, 0))(x)
    return embedded.pixels(x[:PICTURES]), embedded.pixels(after[:PICTURES])


def _shifts(x: Images) -> Iterator[tuple[str, float]]:
    """How far the channels of the last HMC draw are from where they were in training, site by site."""
    network, train = embedded.posterior("gaussian").models()[-1], embedded.statistics("gaussian", "ChannelMoments")[-1]
    here = fit(network, x, covariance=ChannelMoments(), progress=False)
    for name, entry in train.items():
        yield name, shift(here[name].parts[0][0], entry.parts[0][0])
