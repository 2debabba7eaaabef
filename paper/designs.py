"""Designs that might gain more than the spectrum by itself, on test images that no other table uses."""

from dataclasses import dataclass
from math import inf
from pathlib import Path

import torch
from torch import Tensor, nn

from paper.cifar import AUTO, PLAIN, RELEASED_PIECE, ROWS, SPECTRUM, first_batches, released, released_preprocess
from paper.claims import Claim, gain, mean, stated
from paper.run import Figures, Root
from shiftmatch.data.images import Labelled
from shiftmatch.data.inventory import load
from shiftmatch.evaluation.evaluate import evaluate
from shiftmatch.evaluation.methods import method_named
from shiftmatch.evaluation.scores import Scores
from shiftmatch.evaluation.suites import Suite
from shiftmatch.matching.average import average
from shiftmatch.report.figures import heat_map

CORAL = "CORAL"
THREE = "average of spectrum, rows and columns, CORAL"
MIRROR = "and its mirror image"
GOAL = 0.82
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


class Mirrored(nn.Module):
    """The mean of what a network says of images and of their mirror images: test-time augmentation, not matching."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        both: Tensor = sum(self.network(each).softmax(-1) for each in (x, x.flip(-1)))
        return (both / 2).log()


@dataclass(frozen=True)
class Designs:
    """The released ResNet-20 at severity 5, batches of 1,000."""

    depth: int = 20
    images: tuple[int, int] = (4000, 5000)
    train: int = 4000
    batch: int = 1000
    corruptions: tuple[str, ...] = FEW
    workers: int = 2

    def run(self, data: Root, folder: Path) -> Scores:
        """Score every design."""
        network, test = released(self.depth, data), load("cifar10", "test", root=data)
        train = first_batches(load("cifar10", "train", root=data), self.train, released_preprocess, size=RELEASED_PIECE)
        robust = {name: method_named(name)(network, train) for name in (SPECTRUM, ROWS, CORAL, AUTO)}
        designs: dict[str, list[nn.Module]] = {
            PLAIN: [network],
            f"{PLAIN} {MIRROR}": [Mirrored(network)],
            ROWS: [robust[ROWS]],
            CORAL: [robust[CORAL]],
            SPECTRUM: [robust[SPECTRUM]],
            THREE: [robust[name] for name in (SPECTRUM, ROWS, CORAL)],
            AUTO: [robust[AUTO]],
            f"{SPECTRUM} {MIRROR}": [Mirrored(robust[SPECTRUM])],
            f"{AUTO} {MIRROR}": [Mirrored(robust[AUTO])],
        }
        index = torch.arange(*self.images)
        chosen = Labelled(test.images[index], test.labels[index], "other test images of cifar10", test.source)
        return evaluate(
            {name: average(members) for name, members in designs.items()},
            Suite("cifar10-c", chosen, self.corruptions, (5,)),
            preprocess=released_preprocess,
            batch_size=self.batch,
            folder=folder / "cells",
            workers=self.workers,
            data=f"resnet{self.depth} · cifar10-c",
            note={"statistics from": self.train},
        )

    def plot(self, scores: Scores) -> Figures:
        """Corruption by design."""
        return {"heat-map": heat_map(scores)}

    def compare(self, scores: Scores) -> list[Claim]:
        """What each gains over the spectrum, and the goal."""
        rest = [name for name in scores.values("method") if name not in (SPECTRUM, PLAIN)]
        gains = [
            stated(
                f"{name} against {SPECTRUM}",
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
