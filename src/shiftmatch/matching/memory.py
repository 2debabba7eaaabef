"""A matched network with memory, for images that come one by one or a few at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from os import PathLike
from typing import Any, NamedTuple, final

import torch
from torch import Tensor, nn

from shiftmatch.core.moments import NOT_FINITE, BatchMoments, affinely, check_batch, merge
from shiftmatch.core.spectrum import ChannelAffine, ChannelMoments, GainAndOffset, Spectrum, after
from shiftmatch.errors import NonFiniteError, StatisticsMismatchError
from shiftmatch.matching.inputs import Inputs, check_images
from shiftmatch.matching.instrument import counting_calls, instrument
from shiftmatch.matching.maps import ImageMap, batchnorm_before, map_of
from shiftmatch.matching.matched import MatchedModel, check_shapes
from shiftmatch.matching.matcher import PartMatcher, SiteMatcher, without_autocast
from shiftmatch.matching.twin import TwinModel
from shiftmatch.utils.files import parsing
from shiftmatch.utils.hashing import content_hash
from shiftmatch.utils.parallel import restoring_grad_mode
from shiftmatch.utils.tensor_files import load_tensors, save_tensors

KIND, FORMAT = "memory of a stream", 1

WINDOW = 500
"""Images that the memory counts for at most: older ones fade."""

REFRESH = 16
"""Images after which the maps are made anew, at most: in between, an image costs little more than without matching."""

GROWTH = 8
"""They are made anew as soon as the memory has grown by one part in so many."""

MAX_WAITING_BYTES = 256 << 20
"""Features of images that are not in the memory yet take no more than this."""

RECENT = 16
"""Images whose look is compared with the memory's."""

CHANGE = 6.0
"""Standard errors by which the look of recent images must differ to be a change of the corruption."""

KEPT_AFTER_CHANGE = 8
"""Images that the memory still counts for after a change."""

BANDS = 4
"""Bands of frequency in which the look of an image is described."""


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


class Memory(NamedTuple):
    """What a stream has been like: images, changes of the corruption, and the moments of each part of a site."""

    images: int
    changes: int
    moments: Mapping[str, BatchMoments]


class StreamModel(TwinModel):
    """A matched network that remembers. Use one for each stream, from one thread at a time.

    Args:
        matched: the network, matched.
        model: the plain network.
        window: how many images the memory counts for at most.
        refresh: after how many images the maps are made anew, at most.

    >>> import shiftmatch as sm
    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    >>> images = torch.randn(64, 3, 8, 8)
    >>> camera = sm.stream(net, sm.fit(net, images))
    >>> _ = camera(images)
    >>> camera.reset()
    >>> camera.images
    0
    """

    def __init__(self, matched: MatchedModel, model: nn.Module, window: int, refresh: int) -> None:
        super().__init__()
        self.statistics, self.window, self.sites = matched.statistics, window, matched.sites
        batchnorm = matched.statistics.batchnorm
        matchers = [site for site in matched.sites if isinstance(site, SiteMatcher)]
        before = {m.site: batchnorm_before(model, m.site) if batchnorm == "eval" else None for m in matchers}
        self._operations = {m.site: _Remembering(self, m, before[m.site]) for m in matchers}
        self._parts = {
            f"{site.name}|{i}": part for site, o in self._operations.items() for i, part in enumerate(o.parts)
        }
        self._first = next(iter(self._parts.values()))
        per_image = 4 * sum(prod(site.shape) * site.per_image for site in self._operations)
        self.refresh = max(1, min(refresh, MAX_WAITING_BYTES // per_image))
        self._waiting, self._measures = 0, True
        self.reset()
        instead = [site for site, found in before.items() if found is not None]
        self.network = instrument(model, self._operations, batchnorm, instead=instead)

    @restoring_grad_mode()
    @torch.no_grad()
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the network returns for one or more images, which are remembered."""
        inputs = check_images(Inputs(args, kwargs)).on(self.network)
        check_shapes({name: tuple(x.shape[1:]) for name, x in inputs.named(self.network).items()}, self.statistics)
        self._waiting += inputs.images
        self._measures = self._waiting >= min(self.refresh, max(1, self._counted // GROWTH))
        try:
            with counting_calls():
                output = self.network(*inputs.args, **inputs.kwargs)
        except BaseException:  # what waits may be spoilt, such as by NaN
            self._forget_waiting()
            raise
        self.images += inputs.images
        if self._measures:
            self._waiting = 0
        return output

    def reset(self) -> None:
        """Forget everything seen so far."""
        self._look, self.changes, self.images = Look(), 0, 0
        for part in self._parts.values():
            part.moments = None
        self._forget_waiting()

    def save_memory(self, path: str | PathLike[str]) -> None:
        """Write what the stream has been like, so that another process can go on with it."""
        tensors, header = self.memory()
        save_tensors(path, tensors, kind=KIND, version=FORMAT, header=header)

    def load_memory(self, path: str | PathLike[str]) -> None:
        """Go on with a memory that `save_memory` has written for the same statistics."""
        tensors, header = load_tensors(path, kind=KIND, version=FORMAT)
        with parsing(path, "its memory", "Go on without it."):
            known = self.read(tensors, header, path)
        self.remember(known)

    def memory(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What the stream has been like, as tensors and what describes them."""
        if self._waiting:
            for operation in self._operations.values():
                operation.absorb()
            self._waiting = 0
        known = {name: part.moments for name, part in self._parts.items() if part.moments is not None}
        tensors = {f"{name}|{kind}": getattr(moments, kind) for name, moments in known.items() for kind in KINDS}
        counts = {name: moments.images for name, moments in known.items()}
        return tensors, {"counts": counts, "images": self.images, "changes": self.changes, "of": self._identity()}

    def read(self, tensors: Mapping[str, Tensor], header: Mapping[str, Any], path: str | PathLike[str]) -> Memory:
        """What `memory` has returned, from a file; refused if it does not fit here."""
        if header["of"] != self._identity():
            raise StatisticsMismatchError(f"{path} is the memory of a stream with other statistics; fit or load those.")
        known = {name: self._remembered(name, tensors, header["counts"][name]) for name in header["counts"]}
        return Memory(int(header["images"]), int(header["changes"]), known)

    def remember(self, memory: Memory) -> None:
        """Go on with what `read` has returned."""
        self.reset()
        self.images, self.changes = memory.images, memory.changes
        for name, moments in memory.moments.items():
            self._parts[name].moments = moments
            self._parts[name].update_map()

    def _remembered(self, name: str, tensors: Mapping[str, Tensor], count: int) -> BatchMoments:
        """The moments of one part in a file, of the shapes that they have here."""
        mean, variance = (tensors[f"{name}|{kind}"] for kind in KINDS)
        target = self._parts[name].target
        if (mean.numel(), variance.numel()) != (target["mean"].numel(), target["variance"].numel()) or int(count) < 0:
            raise ValueError(f"{name} has {mean.numel()} means, {variance.numel()} variances and {count} images")
        return BatchMoments(mean, variance, int(count))

    @property
    def _counted(self) -> int:
        """Images that the memory counts for."""
        moments = self._first.moments
        return 0 if moments is None else int(moments.images)

    def _identity(self) -> str:
        return content_hash([self.statistics.weights, self.statistics.images, list(self.statistics)])

    def _forget_waiting(self) -> None:
        self._waiting = 0
        for part in self._parts.values():
            part.waiting.clear()

    def _notice(self, looks: Tensor) -> None:
        """Forget faster where images have changed."""
        if self._look.changed(looks, self.window):
            self.changes += 1
            for part in self._parts.values():
                if part.moments is not None:
                    part.moments = part.moments._replace(images=min(int(part.moments.images), KEPT_AFTER_CHANGE))


KINDS = ("mean", "variance")


class _Part:
    """What a stream knows of one part of a site: moments, images that are not in them yet, and the map."""

    def __init__(self, matcher: PartMatcher, before: ChannelAffine | None, space: Sequence[int]) -> None:
        assert isinstance(matcher.covariance, Spectrum | ChannelMoments)
        self.structure, self.target, self.prior, self.space = matcher.covariance, matcher.target, matcher.prior, space
        gain, self.unit = torch.ones_like(self.target["variance"]), self.target.get("unit", 1.0)
        self.before = before and (before[0].to(gain.dtype), before[1].to(gain.dtype))
        none = GainAndOffset(gain, torch.zeros_like(self.target["mean"]))
        self.map = map_of(self.structure, self.target, none, space)
        self.moments: BatchMoments | None = None
        self.waiting: list[Tensor] = []

    def absorb(self, window: int, per_image: int) -> None:
        """Add what waits to the moments, old images faded, and make the map from them."""
        z = torch.cat(self.waiting)
        new = self.structure.summarise(z, len(z) // per_image)
        check_batch(new)
        if self.before is not None:
            new = affinely(new, *self.before, self.unit)
        if (old := self.moments) is not None:
            new = merge(old._replace(images=min(int(old.images), max(1, window - int(new.images)))), new)
        self.moments = new
        self.waiting.clear()
        self.update_map()

    def update_map(self) -> None:
        """The map that the moments ask for."""
        assert self.moments is not None
        affine = self.structure.gain_and_offset(self.moments, self.target, self.prior)
        self.map.assign(affine if self.before is None else after(affine, *self.before, self.unit))


class _Remembering:
    """The operation at a site of a stream."""

    def __init__(self, owner: StreamModel, matcher: SiteMatcher, before: ChannelAffine | None) -> None:
        self.owner, self.site = [owner], matcher.site  # in a list, so that modules do not hold each other
        spaces = matcher.site.layout.spaces(matcher.site.shape)
        self.parts = [_Part(part, before, space) for part, space in zip(matcher.parts, spaces, strict=True)]  # type: ignore[arg-type]
        whole = len(self.parts) == 1 and matcher.site.layout.channel == 1 and not matcher.site.is_input
        self._whole = whole and isinstance(self.parts[0].map, ImageMap)

    def __call__(self, x: Tensor) -> Tensor:
        self.site.check_shape(x)
        if torch.is_autocast_enabled(x.device.type):
            with without_autocast(x.device.type):
                return self(x)
        if self._whole and not self.owner[0]._measures:  # what most images get
            part = self.parts[0]
            assert isinstance(part.map, ImageMap)
            moved, z = part.map.with_coefficients(x)
            part.waiting.append(z)
            return moved
        features = self.site.layout.split(x)
        found = [part.map.coefficients(one) for part, one in zip(self.parts, features, strict=True)]
        for part, z, one in zip(self.parts, found, features, strict=True):
            part.waiting.append(z.clone() if z is one else z)
        if self.owner[0]._measures:
            self.absorb()
        elif self.site.is_input and not found[0].sum().isfinite():
            raise NonFiniteError(NOT_FINITE)
        return self.site.layout.join(
            [part.map.features(z, one) for part, z, one in zip(self.parts, found, features, strict=True)]
        )

    def absorb(self) -> None:
        """Take in the images that wait."""
        first, owner = self.parts[0], self.owner[0]
        if self.site.is_input and isinstance(first.structure, Spectrum):
            z = torch.cat(first.waiting)
            if z.isfinite().all():
                owner._notice(_looks(z, first.target, first.space))
        for part in self.parts:
            part.absorb(owner.window, self.site.per_image)


def _looks(z: Tensor, target: Mapping[str, Tensor], space: Sequence[int]) -> Tensor:
    """For every image, its level, and the logarithm of its energy in bands of frequency, each a mean over channels."""
    sides = space if z[0, 0].numel() == prod(space) else z.shape[2:]
    z = z.flatten(2)
    deviations = (z - target["mean"]).abs()
    energy = (deviations.square() / (target["variance"] + target["floor"])).mean(1)
    order = energy.new_tensor([sum(place) for place in _places(sides)]).argsort()
    bands = torch.stack([energy[:, band].mean(-1) for band in order[1:].tensor_split(BANDS)], dim=-1)
    level = (z[..., 0].real - target["mean"][:, 0].real).mean(1, keepdim=True)
    return torch.cat([level, (bands + 1e-6).log()], dim=-1).cpu()


def _places(sides: Sequence[int]) -> list[tuple[float, ...]]:
    grids = torch.meshgrid(*(torch.arange(side) / side for side in sides), indexing="ij")
    return [tuple(place) for place in torch.stack([grid.flatten() for grid in grids], dim=-1).tolist()]
