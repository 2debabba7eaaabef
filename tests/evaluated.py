"""A small suite and small networks to evaluate; run as a script: an evaluation that may be told to die."""

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from shiftmatch.data.images import Labelled
from shiftmatch.evaluation.evaluate import Predictor, evaluate
from shiftmatch.evaluation.methods import METHODS, predictor
from shiftmatch.evaluation.suites import Suite
from shiftmatch.matching.average import average

COUNT, LIMIT, PARENT = "SHIFTMATCH_TEST_COUNT", "SHIFTMATCH_TEST_LIMIT", "SHIFTMATCH_TEST_PARENT"
CLASSES = 3


def tiny_suite(
    *,
    images: int = 60,
    severities: tuple[int, ...] = (1, 5),
    seed: int = 0,
    classes: int = CLASSES,
    root: Path | None = None,
    pixels: int = 1,
) -> Suite:
    generator = torch.Generator().manual_seed(pixels)
    noise = torch.randint(256, (images, 3, 16, 16), generator=generator, dtype=torch.uint8)
    clean = Labelled(noise, torch.arange(images) % classes, "noise test", "made up")
    return Suite("cifar10-c", clean, ("contrast", "gaussian_noise"), severities, seed=seed, root=root)


@dataclass(frozen=True)
class Scaled:
    divisor: float = 100.0

    def __call__(self, pixels: Tensor) -> Tensor:
        return pixels / self.divisor


class Tiny(nn.Module):
    """Convolution, BatchNorm, a dense layer; gives probabilities, and so may be a predictor by itself."""

    def __init__(self, seed: int | None = None) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed or 0)
            self.conv, self.norm, self.head = nn.Conv2d(3, 4, 3, 2), nn.BatchNorm2d(4), nn.Linear(4 * 49, CLASSES)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(torch.relu(self.norm(self.conv(x))).flatten(1))
        return logits.softmax(-1)


class Counted:
    """A predictor that counts its calls, which say nothing of what it predicts."""

    def __init__(self) -> None:
        self.calls = 0

    def __getstate__(self) -> dict[str, object]:
        return {}

    def __call__(self, x: Tensor) -> Tensor:
        self.calls += 1
        return torch.eye(CLASSES)[torch.arange(len(x)) % CLASSES]


@dataclass
class Mortal:
    """Leaves a mark for every batch that it has seen; when there are as many as it may leave, the run is killed."""

    network: nn.Module

    def __call__(self, x: Tensor) -> Tensor:
        marks = Path(os.environ[COUNT])
        if marks.exists() and len(marks.read_text()) >= int(os.environ[LIMIT]):
            os.kill(int(os.environ[PARENT]), signal.SIGKILL)
            time.sleep(60)  # if this is a worker: it goes when it sees that its parent has gone
        with marks.open("a") as file:
            file.write("|")
        return average([self.network])(x)


def methods() -> dict[str, Predictor]:
    """Of every kind that is sent to workers in its own way."""
    train = [tiny_suite(images=200).clean.images[torch.arange(200)] / 100]
    names = ("plain", "batchnorm", "ShiftMatch: spectrum", "batchnorm-running", "Tent")
    return {name: predictor(METHODS[name], [Tiny(1), Tiny(2)], train) for name in names}


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, workers = Path(sys.argv[1]), int(sys.argv[2])
    os.environ[PARENT] = str(os.getpid())
    mortal = {f"net {seed}": Mortal(Tiny(seed)) for seed in (1, 2)}
    scores = evaluate(mortal, tiny_suite(), ["accuracy", "ece"], preprocess=Scaled(), folder=folder, workers=workers)
    scores.save(folder.with_suffix(".csv"))
