"""Designs that might gain more than the spectrum by itself, on test images that no other table uses.

Each network runs once for each corruption; designs that average are made from what the networks have answered.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from paper.cifar import (
    AUTO,
    MOMENTS,
    PLAIN,
    RELEASED_PIECE,
    ROWS,
    SPECTRUM,
    first_batches,
    released,
    released_preprocess,
)
from paper.claims import Claim, gain, mean, stated
from paper.run import Figures, Root
from shiftmatch.core.covariance import ChannelCovariance, SpatialKronecker
from shiftmatch.core.spectrum import Prior
from shiftmatch.data.images import Labelled
from shiftmatch.data.inventory import load
from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.evaluation.suites import Suite
from shiftmatch.matching.instrument import instrument
from shiftmatch.matching.match import fit, match
from shiftmatch.matching.matcher import SiteMatcher
from shiftmatch.matching.statistics import Statistics
from shiftmatch.matching.strength import decide, nested_family
from shiftmatch.metrics.registry import measure
from shiftmatch.report.figures import heat_map
from shiftmatch.utils.hashing import content_hash
from shiftmatch.utils.tensor_files import load_tensors, save_tensors

CORAL, CORAL_AFTER, CORAL_BEFORE = "CORAL", "spectrum, then C x C", "C x C, then spectrum"
LESS, MORE = "spectrum, prior (0, 50)", "spectrum, prior (16, 2000)"
MIRROR = ", mirrored"
GOAL, SEVERITY, KIND = 0.82, 5, "answers"
FEW = (
    "gaussian_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "snow",
    "contrast",
    "pixelate",
    "jpeg_compression",
)

Answers: TypeAlias = Mapping[str, Float[Tensor, "n k"]]
"""Log-probabilities by network."""


def of(name: str) -> Callable[[Answers], Tensor]:
    """One network by itself."""
    return lambda answers: answers[name]


def mean_of(*names: str) -> Callable[[Answers], Tensor]:
    """The mean of probabilities."""
    return lambda answers: torch.stack([answers[name] for name in names]).logsumexp(0).log_softmax(-1)


def auto_of(*names: str) -> Callable[[Answers], Tensor]:
    """The mean of probabilities with the weights of `strength="auto"`."""

    def answer(answers: Answers) -> Tensor:
        family, classes = {name: answers[name] for name in names}, answers[PLAIN].shape[1]
        shares = torch.full((classes,), 1 / classes, dtype=torch.float64)  # as in training
        return decide(nested_family(family, shares), (names[1], names[2])).answer(family)

    return answer


FAMILY = (PLAIN, MOMENTS, SPECTRUM)
DESIGNS: Mapping[str, Callable[[Answers], Tensor]] = {
    **{name: of(name) for name in (PLAIN, MOMENTS, CORAL, ROWS, SPECTRUM, CORAL_AFTER, CORAL_BEFORE, LESS, MORE)},
    AUTO: auto_of(*FAMILY),
    f"{AUTO}, and CORAL": auto_of(*FAMILY, CORAL),
    f"{AUTO}, rows and columns, and CORAL": auto_of(*FAMILY, ROWS, CORAL),
    "mean of spectrum, rows and columns, CORAL": mean_of(SPECTRUM, ROWS, CORAL),
    f"mean of spectrum and {CORAL_BEFORE}": mean_of(SPECTRUM, CORAL_BEFORE),
    f"{SPECTRUM} and its mirror image": mean_of(SPECTRUM, SPECTRUM + MIRROR),
    f"{AUTO} and its mirror image": lambda answers: (
        (auto_of(*FAMILY)(answers).exp() + auto_of(*(name + MIRROR for name in FAMILY))(answers).exp()) / 2
    ).log(),
}


class Stages:
    """Operations at a site, one after the other."""

    def __init__(self, *operations: Callable[[Tensor], Tensor]) -> None:
        self.operations = operations

    def __call__(self, x: Tensor) -> Tensor:
        for operation in self.operations:
            x = operation(x)
        return x


class Mirrored(nn.Module):
    """What a network says of mirror images: test-time augmentation, not matching."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.network(x.flip(-1))
        return found


@dataclass(frozen=True)
class Designs:
    """The released ResNet-20 at severity 5, all images in one batch."""

    depth: int = 20
    images: tuple[int, int] = (4000, 5000)
    train: int = 4000
    corruptions: tuple[str, ...] = FEW

    def run(self, data: Root, folder: Path) -> Scores:
        """Score every design."""
        test, index = load("cifar10", "test", root=data), torch.arange(*self.images)
        chosen = Labelled(test.images[index], test.labels[index], "other test images of cifar10", test.source)
        suite = Suite("cifar10-c", chosen, self.corruptions, (SEVERITY,))
        networks: dict[str, nn.Module] = {}
        rows, correct = [], {}
        for corruption in self.corruptions:
            file = folder / "designs" / f"{content_hash([self, corruption])}.safetensors"
            if not file.exists():
                networks = networks or self.networks(data)
                x = released_preprocess(suite.images(corruption, SEVERITY))
                with torch.no_grad():
                    found = {name: network(x).log_softmax(-1) for name, network in networks.items()}
                file.parent.mkdir(parents=True, exist_ok=True)
                save_tensors(file, found, kind=KIND, version=1, header={"corruption": corruption})
            answers, _ = load_tensors(file, kind=KIND, version=1)
            for name, design in DESIGNS.items():
                p = design(answers).exp()
                value, stderr = measure("accuracy", p, chosen.labels)["accuracy"]
                cell = (name, f"resnet{self.depth} · cifar10-c", corruption, SEVERITY)
                rows.append(Score(*cell, "accuracy", value, 0, len(index), stderr))
                correct[rows[-1].key] = (p.argmax(-1) == chosen.labels).numpy()
        settings = {"test images": list(self.images), "statistics from": self.train, "batch size": len(index)}
        return Scores(rows, {"settings": settings}, correct)

    def networks(self, data: Root) -> dict[str, nn.Module]:
        """Every network that runs."""
        network = released(self.depth, data)
        train = first_batches(load("cifar10", "train", root=data), self.train, released_preprocess, size=RELEASED_PIECE)
        spectra, rows, coral = (
            fit(network, train, covariance=structure, progress=False)
            for structure in (None, SpatialKronecker(), ChannelCovariance())
        )
        found: dict[str, nn.Module] = {
            PLAIN: network,
            MOMENTS: match(network, spectra, strength="moments"),
            SPECTRUM: match(network, spectra),
            ROWS: match(network, rows),
            CORAL: match(network, coral),
            CORAL_AFTER: _staged(network, spectra, coral, first=spectra),
            CORAL_BEFORE: _staged(network, spectra, coral, first=coral),
            LESS: match(network, spectra, prior_images=(0, 50)),
            MORE: match(network, spectra, prior_images=(16, 2000)),
        }
        return found | {name + MIRROR: Mirrored(found[name]) for name in FAMILY}

    def plot(self, scores: Scores) -> Figures:
        """Corruption by design, for those with a name of their own."""
        return {"heat-map": heat_map(scores.where(method=[PLAIN, MOMENTS, CORAL, ROWS, SPECTRUM, AUTO]))}

    def compare(self, scores: Scores) -> list[Claim]:
        """What each gains over the spectrum, and the goal."""
        rest = [name for name in scores.values("method") if name not in (SPECTRUM, PLAIN)]
        gains = [
            stated(
                f"{name} ({100 * mean(scores, name).value:.1f} %) against {SPECTRUM}",
                gain(scores, name, SPECTRUM),
                (0, inf),
                published="",
                scale=100,
                unit=" points",
            )
            for name in rest
        ]
        best = max(rest, key=lambda name: mean(scores, name).value)
        goal = stated(f"{best} reaches 82", mean(scores, best), (GOAL, inf), published="goal", scale=100, unit=" %")
        return [*gains, goal]


def _staged(network: nn.Module, spectra: Statistics, coral: Statistics, *, first: Statistics) -> nn.Module:
    """The spectrum and the C x C covariance of each site, one after the other; the latter with a prior of 300 images.

    Both are the identity on training data, so either has the training statistics that it would have by itself.
    """

    def stages(name: str) -> Stages:
        own = SiteMatcher(spectra[name], None, torch.float32)
        between = SiteMatcher(coral[name], Prior(300.0, 300.0), torch.float32)
        return Stages(own, between) if first is spectra else Stages(between, own)

    return instrument(network, {entry.site: stages(name) for name, entry in spectra.items()})
