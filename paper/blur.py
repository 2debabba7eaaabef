"""Figure 2 of the paper: how much of a blur matching undoes, on real images."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor, nn

from paper.claims import CLEAN, Claim, stated
from paper.run import Figures, Root
from shiftmatch.core.covariance import Covariance, SpatialKronecker, Spectrum
from shiftmatch.data.inventory import load
from shiftmatch.evaluation.scores import Mean, Score, Scores
from shiftmatch.matching.match import fit, match
from shiftmatch.shapes import Images
from shiftmatch.utils.provenance import versions

BLURRED, ROWS, SPECTRUM = "blurred", "ShiftMatch: rows and columns", "ShiftMatch: spectrum"
DIAGONAL = "diagonal"
ERROR, LEFT = "relative_error", "share_of_error_left"
SHOWN = 8
"""Images in the picture."""

UNDONE = 0.1
"""The share of the error that may be left of a blur that counts as undone."""

RESAMPLES = 200


@dataclass(frozen=True)
class UndoneBlur:
    """CIFAR-10 test images under circular blurs, matched at the input to the statistics of training images.

    In the paper's theory the images are stationary and infinitely many; these are neither, so some of the blur stays.
    Of a diagonal blur (`diagonal` pixels along one diagonal, none across it) the covariances of rows and of columns
    see little.
    """

    images: int = 10_000
    train: int = 50_000
    sigmas: tuple[float, ...] = (0.4, 0.6, 0.8, 1.0)
    diagonal: float = 1.0

    def run(self, data: Root, folder: Path) -> Scores:
        """‖x − sharp‖ / ‖sharp − mean‖ of the blurred and of the matched images, and the share of it that is left."""
        sharp = pixels("test", self.images, data)
        methods = {name: self._undo(covariance, data) for name, covariance in structures().items()}
        rows = []
        for blur, blurry in self._blurs(sharp).items():
            before = squared_errors(blurry, sharp)
            rows.append(self._row(BLURRED, blur, ERROR, relative_error(blurry, sharp), None))
            for name, undo in methods.items():
                after = undo(blurry)
                share = share_left(squared_errors(after, sharp), before)
                rows.append(self._row(name, blur, ERROR, relative_error(after, sharp), None))
                rows.append(self._row(name, blur, LEFT, share.value, share.stderr))
        rows += [
            self._row(name, CLEAN, ERROR, relative_error(undo(sharp), sharp), None) for name, undo in methods.items()
        ]
        return Scores(rows, {"settings": {"images": self.images, "train": self.train}, "versions": versions()})

    def plot(self, scores: Scores) -> Figures:
        """The error that is left against the width of the blur."""
        figure = Figure(figsize=(5.0, 3.6), layout="constrained")
        axes = figure.add_subplot()
        blurs = [_gaussian(sigma) for sigma in self.sigmas]
        for method in scores.values("method"):
            values = {row.corruption: row.value for row in scores.where(method=method, metric=ERROR)}
            axes.plot(self.sigmas, [values[blur] for blur in blurs], marker="o", label=method)
        axes.set(xlabel="standard deviation of the blur (pixels)", ylabel="relative error", ylim=(0, None))
        axes.legend(frameon=False)
        return {"error": figure}

    def compare(self, scores: Scores) -> list[Claim]:
        """The paper: a stationary linear corruption is removed perfectly, in the limit of infinitely many images."""
        return [
            stated(
                f"{row.corruption}: what {row.method} leaves of the error",
                Mean(row.value, row.stderr, row.n),
                (-math.inf, UNDONE),
                published="0 % of infinitely many stationary images",
                scale=100,
                unit=" %",
            )
            for row in scores.where(metric=LEFT)
        ]

    def picture(self, data: Root) -> Figure:
        """Images: sharp, under the widest blur, and matched."""
        sharp = pixels("test", self.images, data)
        blurry = blurred(sharp, self.sigmas[-1])
        undone = {name: self._undo(covariance, data)(blurry) for name, covariance in structures().items()}
        named = {"sharp": sharp, BLURRED: blurry} | {name.split(": ")[1]: images for name, images in undone.items()}
        figure = Figure(figsize=(SHOWN, 1.15 * len(named)), layout="constrained")
        for row, (name, images) in zip(figure.subplots(len(named), SHOWN), named.items(), strict=True):
            for axes, image in zip(row, images[:SHOWN], strict=True):
                axes.imshow(image.clamp(0, 1).permute(1, 2, 0).numpy(), interpolation="nearest")
                axes.set(xticks=[], yticks=[])
            row[0].set_ylabel(name, fontsize=7)
        return figure

    def _blurs(self, sharp: Images) -> dict[str, Images]:
        found = {_gaussian(sigma): blurred(sharp, sigma) for sigma in self.sigmas}
        return found | {f"{DIAGONAL} blur of {self.diagonal} pixels": blurred(sharp, self.diagonal, diagonal=True)}

    def _undo(self, covariance: Covariance, data: Root) -> nn.Module:
        """Matching the input alone, as every layer of a network would be."""
        network = nn.Identity()
        return match(network, fit(network, pixels("train", self.train, data), covariance=covariance))

    def _row(self, method: str, blur: str, metric: str, value: float, stderr: float | None) -> Score:
        return Score(method, "cifar10", blur, None, metric, value, 0, self.images, stderr)


def structures() -> dict[str, Covariance]:
    """The structures that are compared: the paper's, and the spectrum."""
    return {ROWS: SpatialKronecker(), SPECTRUM: Spectrum()}


def blurred(images: Float[Tensor, "b c h w"], sigma: float, *, diagonal: bool = False) -> Images:
    """A circular Gaussian blur: x̂(f) exp(−2 (π σ |f|)²); a diagonal one has (f_y + f_x)/√2 in place of |f|.

    >>> blurred(torch.ones(1, 1, 4, 4), 2.0).mean().item()
    1.0
    """
    height, width = images.shape[-2:]
    along = torch.fft.fftfreq(height)[:, None] + torch.fft.rfftfreq(width)
    frequency = along / math.sqrt(2) if diagonal else frequencies(height, width)
    return filtered(images, torch.exp(-2 * (math.pi * sigma * frequency) ** 2))


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


def squared_errors(images: Float[Tensor, "b c h w"], truth: Float[Tensor, "b c h w"]) -> Float[Tensor, "b"]:
    """‖x − truth‖² of each image."""
    return (images - truth).double().square().sum((1, 2, 3))


def share_left(after: Float[Tensor, "b"], before: Float[Tensor, "b"]) -> Mean:
    """√(Σ after / Σ before): the part of the error that is left, its standard error by drawing images anew.

    >>> share_left(torch.ones(4).double(), 4 * torch.ones(4).double())
    Mean(value=0.5, stderr=0.0, n=4)
    """
    pairs = torch.stack([after, before]).numpy()
    draws = np.random.default_rng(0).integers(len(after), size=(RESAMPLES, len(after)))
    found = [math.sqrt(high / low) for high, low in (pairs[:, chosen].sum(1) for chosen in draws)]
    return Mean(math.sqrt(float(after.sum() / before.sum())), float(np.std(found)), len(after))


def pixels(split: str, count: int, data: Root) -> Images:
    """The first images of CIFAR-10, from 0 to 1."""
    source = load("cifar10", split, root=data, limit=count)
    return source.images[torch.arange(len(source))] / 255


def _gaussian(sigma: float) -> str:
    return f"blur of {sigma} pixels"
