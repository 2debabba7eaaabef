"""Figure 2 of the paper: a blur undone by matching, on real images."""

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor, nn

from paper.experiments.claims import CLEAN, holds
from paper.experiments.experiment import Comparison, Figures, Root
from shiftmatch.data.inventory import load
from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.matching.match import fit, match
from shiftmatch.shapes import Images
from shiftmatch.utils.provenance import versions

BLURRED, MATCHED = "blurred", "ShiftMatch"
ERROR = "relative_error"
SHOWN = 8
"""Images in the picture."""

UNDONE = 0.5
"""The part of the error that may be left for a blur to count as undone; with infinitely many images none would."""


@dataclass(frozen=True)
class UndoneBlur:
    """CIFAR-10 test images under circular Gaussian blurs, matched at the input to the statistics of training images.

    In the paper's theory the images are stationary and infinitely many; these are neither, so some of the blur stays.
    """

    images: int = 10_000
    train: int = 50_000
    sigmas: tuple[float, ...] = (0.4, 0.6, 0.8, 1.0)

    def run(self, data: Root, folder: Path) -> Scores:
        """‖x − sharp‖ / ‖sharp − mean‖ of the blurred and of the matched images, for each width of the blur."""
        sharp, undo = self._sharp(data), self._undo(data)
        rows = []
        for sigma in self.sigmas:
            blurry = blurred(sharp, sigma)
            found = {BLURRED: blurry, MATCHED: undo(blurry)}
            cell = ("cifar10", f"blur of {sigma} pixels", None)
            rows += [Score(name, *cell, ERROR, relative_error(x, sharp), 0) for name, x in found.items()]
        clean = relative_error(undo(sharp), sharp)
        rows.append(Score(MATCHED, "cifar10", CLEAN, None, ERROR, clean, 0))
        return Scores(rows, {"settings": {"images": self.images, "train": self.train}, "versions": versions()})

    def plot(self, scores: Scores) -> Figures:
        """The error that is left against the width of the blur."""
        figure = Figure(figsize=(5.0, 3.6), layout="constrained")
        axes = figure.add_subplot()
        corrupted = Scores([row for row in scores if row.corruption != CLEAN])
        for method in (BLURRED, MATCHED):
            values = [row.value for row in corrupted.where(method=method)]
            axes.plot(self.sigmas, values, marker="o", label=method)
        axes.set(xlabel="standard deviation of the blur (pixels)", ylabel="relative error", ylim=(0, None))
        axes.legend(frameon=False)
        return {"error": figure}

    def compare(self, scores: Scores) -> list[Comparison]:
        """The paper: a stationary linear corruption is removed perfectly, in the limit of infinitely many images."""
        errors = {(row.method, row.corruption): row.value for row in scores}
        names = [name for name in scores.values("corruption") if name != CLEAN]
        left = {name: errors[MATCHED, name] / errors[BLURRED, name] for name in names}
        return [
            holds(f"{name} is undone", f"{100 * part:.0f} % of the error is left", agrees=part < UNDONE)
            for name, part in left.items()
        ]

    def picture(self, data: Root) -> Figure:
        """Images: sharp, under the widest blur, and matched."""
        sharp = self._sharp(data)
        blurry = blurred(sharp, self.sigmas[-1])
        figure = Figure(figsize=(SHOWN, 3.4), layout="constrained")
        panels = figure.subplots(3, SHOWN)
        named = {"sharp": sharp, BLURRED: blurry, MATCHED: self._undo(data)(blurry)}
        for row, (name, images) in zip(panels, named.items(), strict=True):
            for axes, image in zip(row, images[:SHOWN], strict=True):
                axes.imshow(image.clamp(0, 1).permute(1, 2, 0).numpy(), interpolation="nearest")
                axes.set(xticks=[], yticks=[])
            row[0].set_ylabel(name)
        return figure

    def _sharp(self, data: Root) -> Images:
        return _pixels("test", self.images, data)

    def _undo(self, data: Root) -> nn.Module:
        """Matching the input alone, as every layer of a network would be."""
        network = nn.Identity()
        return match(network, fit(network, _pixels("train", self.train, data)))


def blurred(images: Float[Tensor, "b c h w"], sigma: float) -> Images:
    """A circular Gaussian blur: x̂(f) exp(−2 (π σ |f|)²).

    >>> blurred(torch.ones(1, 1, 4, 4), 2.0).mean().item()
    1.0
    """
    return filtered(images, torch.exp(-2 * (math.pi * sigma * frequencies(*images.shape[-2:])) ** 2))


def filtered(images: Float[Tensor, "b c h w"], gain: Float[Tensor, "h f"]) -> Images:
    """Each frequency multiplied by its gain."""
    result: Tensor = torch.fft.irfft2(torch.fft.rfft2(images) * gain, s=images.shape[-2:])
    return result


def frequencies(height: int, width: int) -> Float[Tensor, "h f"]:
    """|f| in cycles per pixel, where `rfft2` has it."""
    return torch.hypot(torch.fft.fftfreq(height)[:, None], torch.fft.rfftfreq(width))


def relative_error(images: Float[Tensor, "b c h w"], truth: Float[Tensor, "b c h w"]) -> float:
    """‖x − truth‖ / ‖truth − its mean‖.

    >>> relative_error(torch.zeros(1, 1, 1, 2), torch.tensor([[[[-1.0, 1.0]]]]))
    1.0
    """
    return float((images - truth).norm() / (truth - truth.mean()).norm())


def _pixels(split: str, count: int, data: Root) -> Images:
    source = load("cifar10", split, root=data, limit=count)
    return source.images[torch.arange(len(source))] / 255
