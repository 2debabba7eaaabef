"""The two timing claims of the paper: matching at test time, and a spatial batchnorm in training."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import hypot
from pathlib import Path
from statistics import fmean

import torch
from jaxtyping import Float
from torch import Tensor, nn

from paper.claims import CLEAN, Claim, Verdict, beside
from paper.plots import bars_by_set
from paper.run import Figures, Root
from shiftmatch.evaluation.scores import Mean, Score, Scores
from shiftmatch.matching.match import fit, match
from shiftmatch.metrics.uncertainty import standard_error
from shiftmatch.models import build
from shiftmatch.models.layers import FilterResponseNorm, initialise
from shiftmatch.models.resnets import ResNetFRN
from shiftmatch.shapes import Images
from shiftmatch.utils.files import versions
from shiftmatch.utils.parallel import track

PLAIN, MATCHED, SPATIAL = "plain", "ShiftMatch (paper)", "spatial batchnorm"
SECONDS = "seconds"
"""The one metric that a rerun does not repeat."""

FORWARD, BACKWARD = "forward", "forward and backward"
OVERHEAD = {PLAIN: 1.15, MATCHED: 1.85}
TRAINING = {PLAIN: 0.35, SPATIAL: 0.77}
"""Published seconds: 10,000 images at test time; the forward pass of a minibatch of 128 in training."""

WITHIN = 0.5
"""What a ratio may differ by and still count as the same."""

JITTER = 1e-3
"""Of the diagonal, added to it before a root is taken: the authors' constant."""


class SpatialBatchNorm(nn.Module):
    """A batchnorm that whitens the rows, then the columns, of every channel and colours them with learned factors.

    x ← (x − m) S^{-1/2} A + a, with m and S of the batch. Gradients pass through m and S, as in batchnorm.

    >>> SpatialBatchNorm(3, 8)(torch.randn(10, 3, 8, 8)).shape
    torch.Size([10, 3, 8, 8])
    """

    def __init__(self, channels: int, size: int) -> None:
        super().__init__()
        self.factors = nn.Parameter(torch.eye(size).expand(2, channels, size, size).clone())
        self.means = nn.Parameter(torch.zeros(2, channels, 1, size))

    def forward(self, x: Images) -> Images:
        for axis, (factor, mean) in enumerate(zip(self.factors, self.means, strict=True)):
            lines = x.transpose(2, 3) if axis == 0 else x  # the axis that is matched comes last
            vectors = lines.transpose(0, 1).flatten(1, 2)
            done = (_whitened(vectors) @ factor + mean).unflatten(1, (len(x), -1)).transpose(0, 1)
            x = done.transpose(2, 3) if axis == 0 else done
        return x


def _whitened(x: Float[Tensor, "c n d"]) -> Float[Tensor, "c n d"]:
    """(x − m) S^{-1/2} for each channel, differentiable in all of it."""
    rest = x - x.mean(1, keepdim=True)
    covariance = rest.mT @ rest / x.shape[1]
    diagonal = covariance.diagonal(dim1=-2, dim2=-1)
    values, vectors = torch.linalg.eigh(covariance + torch.diag_embed(JITTER * diagonal))
    root: Tensor = (vectors * values.clamp_min(torch.finfo(x.dtype).tiny).rsqrt()[:, None]) @ vectors.mT
    return rest @ root


def with_spatial_batchnorm(network: ResNetFRN, side: int = 32) -> ResNetFRN:
    """A spatial batchnorm after every normalisation on the main branch, where matching would be; in place."""
    for name, module in list(network.named_modules()):
        if isinstance(module, FilterResponseNorm) and "shortcut" not in name:
            width = module.gamma.numel()
            network.set_submodule(name, nn.Sequential(module, SpatialBatchNorm(width, side * 16 // width)))
    return network


@dataclass(frozen=True)
class Timing:
    """Passes of the FRN ResNet-20 over `images` random images: plain and matched, or, in `training`, with the layer."""

    images: int
    training: bool
    repeats: int = 5
    blocks: int = 3

    @property
    def published(self) -> dict[str, float]:
        """The seconds that the paper states."""
        return TRAINING if self.training else OVERHEAD

    def run(self, data: Root, folder: Path) -> Scores:
        """The mean of several passes of each, taken in turns so that all meet the same machine."""
        generator = torch.Generator().manual_seed(0)
        network = initialise(build("resnet20_frn", blocks=self.blocks), generator, gain=2.0).eval()
        images = torch.randn(self.images, 3, 32, 32, generator=generator)
        passes = self._training(images) if self.training else self._overhead(network, images)
        taken: dict[tuple[str, str], list[float]] = {key: [] for key in passes}
        for _ in track(range(self.repeats), "timing"):
            for key, run in passes.items():
                taken[key].append(_seconds(run))
        rows = [
            Score(name, f"{self.images} images, {what}", CLEAN, None, SECONDS, fmean(t), 0, len(t), standard_error(t))
            for (name, what), t in taken.items()
        ]
        settings = {"images": self.images, "repeats": self.repeats, "threads": torch.get_num_threads()}
        return Scores(rows, {"settings": settings, "versions": versions()})

    def plot(self, scores: Scores) -> Figures:
        """Bars."""
        return {SECONDS: bars_by_set(scores, SECONDS)}

    def compare(self, scores: Scores) -> list[Claim]:
        """The ratio of the two beside the published one; the seconds themselves depend on the machine."""
        plain, other = self.published
        found = []
        for data in scores.values("data"):
            low, high = (scores.where(data=data, method=name)[0] for name in (plain, other))
            forward = data.endswith(f", {FORWARD}")
            stated = f"{self.published[plain]} s and {self.published[other]} s, on a GPU" if forward else ""
            seconds = f"{low.value:.2f} s and {high.value:.2f} s"
            found.append(Claim(f"{data}: {plain} and {other}", stated, seconds, "", None, Verdict.NOT_JUDGED))
            if forward:
                ratio = self.published[other] / self.published[plain]
                found.append(beside(f"{other} / {plain}", _ratio(high, low), ratio, within=WITHIN))
        return found

    def _overhead(self, network: nn.Module, images: Tensor) -> dict[tuple[str, str], Callable[[], object]]:
        matched = match(network, fit(network, images, preset="paper"))
        return {
            (PLAIN, FORWARD): torch.no_grad()(lambda: network(images)),
            (MATCHED, FORWARD): torch.no_grad()(lambda: matched(images)),
        }

    def _training(self, images: Tensor) -> dict[tuple[str, str], Callable[[], object]]:
        plain, spatial = ResNetFRN(blocks=self.blocks), with_spatial_batchnorm(ResNetFRN(blocks=self.blocks))
        return {
            (PLAIN, FORWARD): lambda: plain(images),
            (SPATIAL, FORWARD): lambda: spatial(images),
            (PLAIN, BACKWARD): lambda: plain(images).sum().backward(),
            (SPATIAL, BACKWARD): lambda: spatial(images).sum().backward(),
        }


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _ratio(high: Score, low: Score) -> Mean:
    """Of two means with independent errors, to first order."""
    value = high.value / low.value
    if high.stderr is None or low.stderr is None:
        return Mean(value, None, high.n)
    return Mean(value, value * hypot(high.stderr / high.value, low.stderr / low.value), high.n)
