"""Figure 2 of the paper: how much of a blur matching undoes, on photographs and on images that wrap around."""

import math
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor, nn

from paper.claims import CLEAN, Claim, stated
from paper.run import Figures, Root
from shiftmatch.core.covariance import Covariance, SpatialKronecker
from shiftmatch.core.spectrum import Spectrum
from shiftmatch.data.inventory import load
from shiftmatch.evaluation.scores import Mean, Score, Scores
from shiftmatch.matching.match import fit, match
from shiftmatch.shapes import Images
from shiftmatch.utils.files import versions

BLURRED, ROWS, DCT, DFT = (
    "blurred",
    "ShiftMatch: rows and columns",
    "ShiftMatch: spectrum",
    "ShiftMatch: spectrum (DFT)",
)
REAL, PERIODIC = "cifar10", "1/f images"
KINDS = ("isotropic", "along rows", "diagonal")
ERROR, LEFT = "relative_error", "share_of_error_left"
SHOWN = 8
"""Images in the picture."""

UNDONE, HALF = 0.1, 0.5
"""The share of the error that may be left: of a blur that theory undoes exactly, and of one on real images."""

FLOOR = 1e-8
"""Of the spectra: the theory has none, and the default would leave frequencies alone that a wide blur has removed."""

RESAMPLES = 200


@dataclass(frozen=True)
class UndoneBlur:
    """Images under blurs, matched at the input to the statistics of other images, without a prior.

    In the paper's theory images are stationary, and infinitely many. Periodic images with a 1/f spectrum are
    stationary: there the Fourier basis undoes blurs in every direction. Photographs are not, and are blurred as
    corruptions do it, mirrored at their borders, which suits the cosine basis if the blur has no slanted direction.
    """

    images: int = 10_000
    train: int = 50_000
    sigmas: tuple[float, ...] = (0.6, 0.8, 1.0)
    seed: int = 0

    def run(self, data: Root, folder: Path) -> Scores:
        """‖x − sharp‖ / ‖sharp − mean‖ of the blurred and of the matched images, and the share of it that is left."""
        rows: list[Score] = []
        for name in (REAL, PERIODIC):
            train, sharp = self._images(name, data)
            methods = {method: undo(covariance, train) for method, covariance in structures().items()}
            for kind, sigma in product(KINDS, self.sigmas):
                blurry = blurred(sharp, sigma, kind, mirror=name == REAL)
                before, row = squared_errors(blurry, sharp), partial(self._row, (name, _named(kind, sigma)))
                rows.append(row(BLURRED, ERROR, relative_error(blurry, sharp), None))
                for method, matched in methods.items():
                    after = matched(blurry)
                    share = share_left(squared_errors(after, sharp), before)
                    rows.append(row(method, ERROR, relative_error(after, sharp), None))
                    rows.append(row(method, LEFT, share.value, share.stderr))
            rows += [
                self._row((name, CLEAN), method, ERROR, relative_error(matched(sharp), sharp), None)
                for method, matched in methods.items()
            ]
        return Scores(rows, {"settings": asdict(self) | {"floor": FLOOR, "prior": 0}, "versions": versions()})

    def plot(self, scores: Scores) -> Figures:
        """The error that is left against the width of the blur, for each kind of blur and of images."""
        figure = Figure(figsize=(8.4, 5.0), layout="constrained")
        panels = figure.subplots(2, len(KINDS), sharex=True, sharey="row")
        for axes, (name, kind) in zip(panels.flat, product((REAL, PERIODIC), KINDS), strict=True):
            for method in scores.values("method"):
                found = scores.where(method=method, metric=ERROR, data=name)
                values = {row.corruption: row.value for row in found}
                axes.plot(self.sigmas, [values[_named(kind, sigma)] for sigma in self.sigmas], marker="o", label=method)
            axes.set_title(f"{name}, {kind}", fontsize=9)
        figure.supxlabel("standard deviation of the blur (pixels)", fontsize=9)
        figure.supylabel("relative error", fontsize=9)
        handles, labels = panels.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
        return {"error": figure}

    def compare(self, scores: Scores) -> list[Claim]:
        """The paper: a stationary linear corruption is removed perfectly, in the limit of infinitely many images."""
        found = scores.where(metric=LEFT)
        periodic = found.where(data=PERIODIC, method=[ROWS, DFT])
        real = found.where(data=REAL, method=[ROWS, DCT])
        return [
            stated(
                f"{row.data}, {row.corruption}: what {row.method} leaves of the error",
                Mean(row.value, row.stderr, row.n),
                (-math.inf, most),
                published=said,
                scale=100,
                unit=" %",
            )
            for rows, most, said in ((periodic, UNDONE, "0 %"), (real, HALF, "0 % if they were stationary"))
            for row in rows
        ]

    def picture(self, data: Root) -> Figure:
        """Photographs: sharp, under the widest blur, and matched."""
        train, sharp = self._images(REAL, data)
        blurry = blurred(sharp, self.sigmas[-1], KINDS[0], mirror=True)
        undone = {name: undo(structures()[name], train)(blurry) for name in (ROWS, DCT)}
        named = {"sharp": sharp, BLURRED: blurry} | {name.split(": ")[1]: images for name, images in undone.items()}
        figure = Figure(figsize=(SHOWN, 1.15 * len(named)), layout="constrained")
        for row, (name, images) in zip(figure.subplots(len(named), SHOWN), named.items(), strict=True):
            for axes, image in zip(row, images[:SHOWN], strict=True):
                axes.imshow(image.clamp(0, 1).permute(1, 2, 0).numpy(), interpolation="nearest")
                axes.set(xticks=[], yticks=[])
            row[0].set_ylabel(name, fontsize=7)
        return figure

    def _images(self, name: str, data: Root) -> tuple[Images, Images]:
        """Training images, and others to blur."""
        if name == REAL:
            return pixels("train", self.train, data), pixels("test", self.images, data)
        both = one_over_f(self.train + self.images, torch.Generator().manual_seed(self.seed))
        return both[: self.train], both[self.train :]

    def _row(self, where: tuple[str, str], method: str, metric: str, value: float, stderr: float | None) -> Score:
        return Score(method, *where, None, metric, value, self.seed, self.images, stderr)


def structures() -> dict[str, Covariance]:
    """The structures that are compared: the paper's, and the spectrum in both bases."""
    return {ROWS: SpatialKronecker(), DCT: Spectrum(floor=FLOOR), DFT: Spectrum("dft", floor=FLOOR)}


def undo(covariance: Covariance, train: Images) -> nn.Module:
    """Matching the input alone, as every layer of a network would be."""
    network = nn.Identity()
    return match(network, fit(network, train, covariance=covariance, progress=False), prior_images=0)


def one_over_f(count: int, generator: torch.Generator) -> Images:
    """Periodic images whose amplitudes fall as 1/f, as those of photographs do."""
    noise = torch.randn(count, 3, 32, 32, generator=generator, dtype=torch.float64)
    return filtered(noise, 1 / frequencies(32, 32).clamp_min(1 / 32))


def blurred(images: Float[Tensor, "b c h w"], sigma: float, kind: str = KINDS[0], *, mirror: bool = False) -> Images:
    """A Gaussian blur, x̂(f) exp(−2 (π σ f)²), f being |f|, f_x or (f_y + f_x)/√2; images wrap around, or are mirrored.

    >>> blurred(torch.ones(1, 1, 4, 4), 2.0).mean().item()
    1.0
    """
    height, width = images.shape[-2:]
    if mirror:
        wide = torch.cat([images, images.flip(-1)], -1)
        return blurred(torch.cat([wide, wide.flip(-2)], -2), sigma, kind)[..., :height, :width]
    down, right = torch.fft.fftfreq(height)[:, None], torch.fft.rfftfreq(width)
    frequency = {
        "isotropic": frequencies(height, width),
        "along rows": 0 * down + right,
        "diagonal": (down + right) / 2**0.5,
    }
    return filtered(images, torch.exp(-2 * (math.pi * sigma * frequency[kind]) ** 2))


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


def _named(kind: str, sigma: float) -> str:
    return f"{kind} blur of {sigma} pixels"
