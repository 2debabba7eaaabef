"""The two timing claims of the paper: what matching costs at test time, and what it would cost in training."""

import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn

from paper.experiments.claims import CLEAN, beside
from paper.experiments.experiment import Comparison, Figures, Root
from paper.experiments.panels import bars_by_set
from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.matching.match import fit, match
from shiftmatch.models import build
from shiftmatch.models.init import initialise
from shiftmatch.utils.progress import track
from shiftmatch.utils.provenance import versions

PLAIN, MATCHED, SPATIAL = "plain", "ShiftMatch", "spatial batchnorm"
SECONDS = "seconds"
"""The one metric that a rerun does not repeat."""

OVERHEAD = {PLAIN: 1.15, MATCHED: 1.85}
TRAINING = {PLAIN: 0.35, SPATIAL: 0.77}
"""Published seconds: 10,000 images at test time; a minibatch of 128 in training."""

WITHIN = 0.5
"""What a ratio may differ by and still count as the same."""


@dataclass(frozen=True)
class Timing:
    """A forward pass of the FRN ResNet-20 on `images` random images, with and without matching.

    In `training`, gradients are recorded: matching in every forward pass is what a spatial batchnorm would do.
    """

    images: int
    training: bool
    repeats: int = 5
    blocks: int = 3

    @property
    def published(self) -> dict[str, float]:
        """The seconds that the paper states."""
        return TRAINING if self.training else OVERHEAD

    def run(self, data: Root, folder: Path) -> Scores:
        """The median of several passes of each, taken in turns so that both meet the same machine."""
        generator = torch.Generator().manual_seed(0)
        network = initialise(build("resnet20_frn", blocks=self.blocks), generator, gain=2.0).eval()
        images = torch.randn(self.images, 3, 32, 32, generator=generator)
        matched = match(network, fit(network, images))
        plain, other = self.published
        taken: dict[str, list[float]] = {plain: [], other: []}
        for _ in track(range(self.repeats), "timing"):
            taken[plain].append(self._seconds(network, images))
            taken[other].append(self._seconds(matched, images))
        rows = [Score(name, f"{self.images} images", CLEAN, None, SECONDS, median(t), 0) for name, t in taken.items()]
        settings = {"images": self.images, "repeats": self.repeats, "threads": torch.get_num_threads()}
        return Scores(rows, {"settings": settings, "versions": versions()})

    def plot(self, scores: Scores) -> Figures:
        """Two bars."""
        return {SECONDS: bars_by_set(scores, SECONDS)}

    def compare(self, scores: Scores) -> list[Comparison]:
        """The ratio of the two beside the published one; the seconds themselves depend on the machine."""
        ours, (plain, other) = {row.method: row.value for row in scores}, self.published
        ratio, published = ours[other] / ours[plain], self.published[other] / self.published[plain]
        seconds = f"{ours[plain]:.2f} s and {ours[other]:.2f} s"
        stated = f"{self.published[plain]} s and {self.published[other]} s, on a GPU"
        return [
            Comparison(f"{self.images} images: {plain} and {other}", seconds, stated, None),
            beside(f"{other} / {plain}", ratio, published, within=WITHIN, digits=2),
        ]

    def _seconds(self, network: nn.Module, images: Tensor) -> float:
        start = time.perf_counter()
        with torch.set_grad_enabled(self.training):
            network(images)
        return time.perf_counter() - start
