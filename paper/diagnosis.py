"""Whether a diagnosis can be believed: clean batches, growing severities, and the kind of thing that is named."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import torch

from paper.cifar import networks_named, released_preprocess, released_statistics
from paper.claims import CLEAN, Claim, Verdict
from paper.run import Figures, Root
from shiftmatch.corruptions import PAPER as CORRUPTIONS
from shiftmatch.corruptions import corrupt
from shiftmatch.data.inventory import load
from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.matching.diagnosis import BRIGHTNESS, CONTRAST, DETAIL, NOISE, diagnose
from shiftmatch.metrics.uncertainty import wilson_interval
from shiftmatch.utils.files import versions
from shiftmatch.utils.parallel import track

WITHIN, DISTANCE, NAMED = "within sampling error", "distance", "named rightly"
MIDDLE = 3
"""The severity at which kinds are to be named."""

FAMILIES = {
    NOISE: ("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise", "spatter"),
    DETAIL: (
        *("defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "gaussian_blur"),
        *("elastic_transform", "pixelate", "jpeg_compression"),
    ),
    CONTRAST: ("contrast", "fog"),
    BRIGHTNESS: ("brightness", "snow", "frost", "saturate"),
}
"""What each corruption does to images: elastic transforms interpolate, fog veils, snow and frost whiten."""


@dataclass(frozen=True)
class Diagnosing:
    """A released network on test images: clean ones in several random orders, and corrupted ones."""

    depth: int = 20
    images: int = 2000
    batch: int = 200
    orders: int = 10
    train: int = 4000
    corruptions: tuple[str, ...] = CORRUPTIONS
    severities: tuple[int, ...] = (1, MIDDLE, 5)
    seed: int = 0

    def run(self, data: Root, folder: Path) -> Scores:
        """Clean batches within sampling error; distance and kind for every corruption and severity."""
        network, statistics = released_statistics(self.depth, self.train, data, folder)
        pixels = load("cifar10", "test", root=data, limit=self.images).images[torch.arange(self.images)]
        name = f"{networks_named((self.depth,))} · cifar10-c"
        generator = torch.Generator().manual_seed(self.seed)
        orders = torch.stack([torch.randperm(self.images, generator=generator) for _ in range(self.orders)])
        rows, kinds = [], {}
        for number, index in enumerate(track(orders.reshape(-1, self.batch), "clean batches")):
            found = diagnose(network, statistics, released_preprocess(pixels[index]))
            cell = ("diagnose", name, CLEAN, None)
            rows.append(Score(*cell, WITHIN, float(not found.shifted), number, self.batch))
            rows.append(Score(*cell, DISTANCE, found.distance, number, self.batch))
        for corruption in track(self.corruptions, "corruptions"):
            for severity in self.severities:
                shown = corrupt(pixels[: self.batch], corruption, severity=severity, seed=self.seed)
                found = diagnose(network, statistics, released_preprocess(shown))
                kinds[f"{corruption} {severity}"] = found.kind
                right = float(corruption in FAMILIES.get(found.kind, ()))
                for metric, value in ((DISTANCE, found.distance), (NAMED, right)):
                    rows.append(Score("diagnose", name, corruption, severity, metric, value, self.seed, self.batch))
        families = {kind: list(members) for kind, members in FAMILIES.items()}
        return Scores(rows, {"kinds": kinds, "families": families, "versions": versions()})

    def plot(self, scores: Scores) -> Figures:
        """Nothing: the table says it all."""
        return {}

    def compare(self, scores: Scores) -> list[Claim]:
        """The three things that a diagnosis is to do."""
        clean = [row.value for row in scores.where(metric=WITHIN)]
        far = scores.where(metric=DISTANCE)
        rising = [
            all(a < b for a, b in pairwise(values))
            for corruption in self.corruptions
            for values in [[row.value for row in far.where(corruption=corruption)]]
        ]
        named = [row.value for row in scores.where(metric=NAMED, severity=MIDDLE)]
        return [
            _counted(f"clean batches of {self.batch} are within sampling error", clean, 0.95),
            _counted(f"distances rise from severity to severity ({self.severities})", rising, 14 / 16),
            *([_counted(f"the kind is named rightly at severity {MIDDLE}", named, 12 / 16)] if named else []),
        ]


def _counted(what: str, hits: Sequence[float], wanted: float) -> Claim:
    """A count beside the one that is wanted; batches overlap and corruptions are chosen, so it is held as it is."""
    n, found = len(hits), sum(hits)
    low, high = wilson_interval(found, n)
    verdict = Verdict.AGREES if fmean(hits) >= wanted else Verdict.DIFFERS
    interval = f"{n * low:.0f} to {n * high:.0f}"
    return Claim(what, f"{round(n * wanted)} of {n}", f"{found:.0f} of {n}", interval, None, verdict)
