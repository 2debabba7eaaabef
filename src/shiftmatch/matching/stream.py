"""A matched network with memory, for images that come one by one or a few at a time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, final

import torch
from torch import Tensor, nn

from shiftmatch.core.spectrum import BatchMoments, ChannelMoments, Spectrum, apply, check_batch, merge
from shiftmatch.errors import InputError, StatisticsMismatchError
from shiftmatch.matching.inputs import Inputs, check_images
from shiftmatch.matching.instrument import counting_calls, instrument
from shiftmatch.matching.match import PriorImages, prior_of
from shiftmatch.matching.matched import MatchedModel, check_shapes
from shiftmatch.matching.matcher import PartMatcher, SiteMatcher
from shiftmatch.matching.statistics import Statistics
from shiftmatch.utils.hashing import content_hash
from shiftmatch.utils.tensor_files import load_tensors, save_tensors

KIND, FORMAT = "memory of a stream", 1

WINDOW = 500
"""Images that the memory counts for at most: older ones fade."""

RECENT = 16
"""Images whose look is compared with the memory's."""

CHANGE = 6.0
"""Standard errors by which the look of recent images must differ to be a change of the corruption."""

KEPT_AFTER_CHANGE = 8
"""Images that the memory still counts for after a change."""

BANDS = 4
"""Bands of frequency in which the look of an image is described."""


def stream(
    model: nn.Module, statistics: Statistics, *, window: int = WINDOW, prior_images: PriorImages | None = None
) -> "StreamModel":
    """The network that matches each image to what the stream has been like lately.

    Args:
        model: the trained network; it stays as it was.
        statistics: what `fit` has measured in it, with Spectrum or ChannelMoments.
        window: how many images the memory counts for at most; older ones fade.
        prior_images: as for `match`.

    >>> from shiftmatch.matching.match import fit
    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    >>> images = torch.randn(64, 3, 8, 8)
    >>> camera = stream(net, fit(net, images))
    >>> torch.cat([camera(image[None]) for image in images]).shape, camera.images
    (torch.Size([64, 10]), 64)
    """
    if window < 1:
        raise InputError(f"window is a number of images, 1 or more; got {window}.")
    for entry in statistics.values():
        if not isinstance(entry.covariance, Spectrum | ChannelMoments):
            raise InputError(
                f"A stream needs statistics whose map has no eigendecomposition; {entry.site.name!r} was fitted with "
                f"{type(entry.covariance).__name__}. Fit with covariance=shiftmatch.Spectrum() or ChannelMoments()."
            )
    return StreamModel(MatchedModel(model, statistics, prior=prior_of(prior_images)), model, window)


@final
@dataclass
class Look:
    """What recent images look like beside those of the memory: mean and spread of a few numbers of each image."""

    count: int = 0
    mean: Tensor = field(default_factory=lambda: torch.zeros(0))
    square: Tensor = field(default_factory=lambda: torch.zeros(0))
    recent: list[Tensor] = field(default_factory=list)

    def changed(self, looks: Tensor, window: int) -> bool:
        """Whether images differ from those before by more than chance; they are remembered either way."""
        self.recent = [*self.recent, *looks][-RECENT:]
        if self.count >= 2 * RECENT and len(self.recent) == RECENT:
            spread = (self.square - self.mean.square()).clamp_min(1e-12).sqrt()
            distance = (torch.stack(self.recent).mean(0) - self.mean).abs() / (spread / RECENT**0.5)
            if distance.max() > CHANGE:
                self.count, self.recent = 0, list(looks)[-RECENT:]
                self._remember(looks, window)
                return True
        self._remember(looks, window)
        return False

    def _remember(self, looks: Tensor, window: int) -> None:
        old, new = min(self.count, window), len(looks)
        share = new / (old + new)
        if old == 0:
            self.mean, self.square = looks.mean(0), looks.square().mean(0)
        else:
            self.mean = self.mean + share * (looks.mean(0) - self.mean)
            self.square = self.square + share * (looks.square().mean(0) - self.square)
        self.count = old + new


class StreamModel(nn.Module):
    """A matched network that remembers. Use one for each stream, from one thread at a time."""

    def __init__(self, matched: MatchedModel, model: nn.Module, window: int) -> None:
        super().__init__()
        self.statistics, self.window, self.sites = matched.statistics, window, matched.sites
        self._memory: dict[str, BatchMoments] = {}
        self._look, self.changes, self.images = Look(), 0, 0
        matchers = [site for site in matched.sites if isinstance(site, SiteMatcher)]
        operations = {matcher.site: _Remembering(self, matcher) for matcher in matchers}
        self.network = instrument(model, operations, matched.statistics.batchnorm)

    @torch.no_grad()
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the network returns for one or more images, which are remembered."""
        inputs = Inputs(args, kwargs)
        check_images(inputs)
        inputs = inputs.on(self.network)
        check_shapes({name: tuple(x.shape[1:]) for name, x in inputs.named(self.network).items()}, self.statistics)
        self.images += inputs.images
        with counting_calls():
            return self.network(*inputs.args, **inputs.kwargs)

    def train(self, mode: bool = True) -> "StreamModel":
        """Stays in evaluation mode."""
        return self

    def reset(self) -> None:
        """Forget everything seen so far."""
        self._memory, self._look, self.changes, self.images = {}, Look(), 0, 0

    def save_memory(self, path: str | PathLike[str]) -> None:
        """Write what the stream has been like, so that another process can go on with it."""
        tensors = {f"{name}|{part}": getattr(moments, part) for name, moments in self._memory.items() for part in PARTS}
        counts = {name: moments.images for name, moments in self._memory.items()}
        header = {"counts": counts, "images": self.images, "changes": self.changes, "of": self._identity()}
        save_tensors(path, tensors, kind=KIND, version=FORMAT, header=header)

    def load_memory(self, path: str | PathLike[str]) -> None:
        """Go on with a memory that `save_memory` has written for the same statistics."""
        tensors, header = load_tensors(path, kind=KIND, version=FORMAT)
        if header["of"] != self._identity():
            raise StatisticsMismatchError(f"{path} is the memory of a stream with other statistics; fit or load those.")
        self.reset()
        self.images, self.changes = header["images"], header["changes"]
        self._memory = {
            name: BatchMoments(tensors[f"{name}|mean"], tensors[f"{name}|variance"], count)
            for name, count in header["counts"].items()
        }

    def _identity(self) -> str:
        return content_hash([self.statistics.weights, self.statistics.images, list(self.statistics)])

    def _remember(self, name: str, new: BatchMoments) -> BatchMoments:
        """The moments of the memory with those of new images, old ones faded."""
        if name in self._memory:
            old = self._memory[name]
            new = merge(old._replace(images=min(old.images, max(1, self.window - new.images))), new)
        self._memory[name] = new
        return new

    def _notice(self, looks: Tensor) -> None:
        """Forget faster where images have changed."""
        if self._look.changed(looks, self.window):
            self.changes += 1
            self._memory = {
                name: moments._replace(images=min(moments.images, KEPT_AFTER_CHANGE))
                for name, moments in self._memory.items()
            }


PARTS = ("mean", "variance")


class _Remembering:
    """The operation at a site of a stream."""

    def __init__(self, owner: StreamModel, matcher: SiteMatcher) -> None:
        self.owner, self.matcher = [owner], matcher  # in a list, so that modules do not hold each other

    def __call__(self, x: Tensor) -> Tensor:
        site = self.matcher.site
        parts = [
            self._matched(f"{site.name}|{i}", part, matcher)  # type: ignore[arg-type]
            for i, (part, matcher) in enumerate(zip(site.layout.split(x), self.matcher.parts, strict=True))
        ]
        return site.layout.join(parts)

    def _matched(self, name: str, x: Tensor, matcher: PartMatcher) -> Tensor:
        structure, target, owner = matcher.covariance, matcher.target, self.owner[0]
        assert isinstance(structure, Spectrum | ChannelMoments)
        z = structure.coefficients(x, target)
        if self.matcher.site.is_input and isinstance(structure, Spectrum):
            owner._notice(_looks(z, target))
        new = structure.summarise(z, x.shape[0] // self.matcher.site.per_image)
        check_batch(new)
        affine = structure.gain_and_offset(owner._remember(name, new), target, matcher.prior)
        return structure.features(apply(z, affine), target, x.shape[2:]).to(x.dtype)


def _looks(z: Tensor, target: Mapping[str, Tensor]) -> Tensor:
    """For every image, its level, and the logarithm of its energy in bands of frequency, each a mean over channels."""
    deviations = (z.flatten(2) - target["mean"]).abs()
    energy = (deviations.square() / (target["variance"] + target["floor"])).mean(1)
    order = energy.new_tensor([sum(place) for place in _places(z.shape[2:])]).argsort()
    bands = torch.stack([energy[:, band].mean(-1) for band in order[1:].tensor_split(BANDS)], dim=-1)
    level = (z.flatten(2)[..., 0].real - target["mean"][:, 0].real).mean(1, keepdim=True)
    return torch.cat([level, (bands + 1e-6).log()], dim=-1).cpu()


def _places(sides: torch.Size) -> list[tuple[float, ...]]:
    grids = torch.meshgrid(*(torch.arange(side) / side for side in sides), indexing="ij")
    return [tuple(place) for place in torch.stack([grid.flatten() for grid in grids], dim=-1).tolist()]
