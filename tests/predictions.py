"""Predictions to try metrics on: random ones, and those where definitions have to decide."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

Predictions = tuple[Float[Tensor, "n k"], Int64[Tensor, "n"]]


def random_predictions(images: int = 500, classes: int = 10, *, sharpness: float = 2.0, seed: int = 0) -> Predictions:
    generator = torch.Generator().manual_seed(seed)
    logits = sharpness * torch.randn(images, classes, generator=generator, dtype=torch.float64)
    return logits.softmax(-1), torch.randint(classes, (images,), generator=generator)


def _certain() -> Predictions:
    _, labels = random_predictions(40, 3)
    return torch.eye(3, dtype=torch.float64)[labels.roll(1)], labels


def _tied() -> Predictions:
    probabilities = torch.tensor([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.3, 0.3, 0.4]], dtype=torch.float64)
    return probabilities.repeat(20, 1), random_predictions(60, 3)[1]


def _on_the_edges() -> Predictions:
    first = torch.arange(15, 31, dtype=torch.float64) / 30
    return torch.stack([first, 1 - first], -1), torch.arange(16) % 2


CASES: dict[str, Predictions] = {
    "random": random_predictions(),
    "sharp": random_predictions(sharpness=20.0),
    "single precision": (random_predictions()[0].float(), random_predictions()[1]),
    "certain": _certain(),
    "tied": _tied(),
    "on the edges of bins": _on_the_edges(),
    "one class": (torch.ones(7, 1, dtype=torch.float64), torch.zeros(7, dtype=torch.int64)),
    "labels of one class": (random_predictions(50, 4)[0], torch.full((50,), 2)),
    "one image": random_predictions(1, 3),
}
