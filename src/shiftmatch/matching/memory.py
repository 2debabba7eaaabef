"""A matched network with a memory, for images that come one by one or a few at a time."""

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
from shiftmatch.matching.matcher import PartTarget, SiteMatcher, without_autocast
from shiftmatch.matching.twin import TwinModel
from shiftmatch.utils.files import parsing
from shiftmatch.utils.hashing import content_hash
from shiftmatch.utils.parallel import restoring_grad_mode
from shiftmatch.utils.tensor_files import load_tensors, save_tensors

KIND, FORMAT = "memory of a stream", 1

WINDOW = 500
"""The memory counts for at most so many images: older ones fade."""

REFRESH = 16
"""Maps are updated after at most so many images. In between, an image costs little more than without matching."""

GROWTH = 8
"""Maps are updated as soon as the memory has grown by an eighth."""

MAX_WAITING_BYTES = 256 << 20
"""The features of images that are not in the memory yet take at most so many bytes."""

RECENT = 16
"""So many of the last images are compared with those of the memory."""

CHANGE = 6.0
"""The corruption has changed where recent images differ by so many standard errors."""

KEPT_AFTER_CHANGE = 8
"""After a change the memory counts for at most so many images."""

BANDS = 4
"""In so many bands of frequency the energy of an image is measured."""


@final
@dataclass
class ChangeDetector:
    """Compares recent images with those of the memory, by mean and spread of a few numbers of each image."""

    count: int = 0
    mean: Tensor = field(default_factory=lambda: torch.zeros(0))
    square: Tensor = field(default_factory=lambda: torch.zeros(0))
    recent: list[Tensor] = field(default_factory=list)

    def changed(self, features: Tensor, window: int) -> bool:
        """Whether recent images differ from those before by more than chance; these numbers are added either way."""
        self.recent = [*self.recent, *features][-RECENT:]
        if self.count >= 2 * RECENT and len(self.recent) == RECENT:
            spread = (self.square - self.mean.square()).clamp_min(1e-12).sqrt()
            distance = (torch.stack(self.recent).mean(0) - self.mean).abs() / (spread / RECENT**0.5)
            if distance.max() > CHANGE:
                self.count, self.recent = 0, list(features)[-RECENT:]
                self._add(features, window)
                return True
        self._add(features, window)
        return False

    def _add(self, features: Tensor, window: int) -> None:
        old, new = min(self.count, window), len(features)
        mean, square, self.count = features.mean(0), features.square().mean(0), old + new
        if old:
            share = new / (old + new)
            mean, square = self.mean + share * (mean - self.mean), self.square + share * (square - self.square)
        self.mean, self.square = mean, square


class Memory(NamedTuple):
    """The state of a stream: images seen, changes of the corruption, and the moments of each part of each site."""

    images: int
    changes: int
    moments: Mapping[str, BatchMoments]


class StreamModel(TwinModel):
    """A matched network that remembers. Use one for each stream, from one thread at a time.

    Args:
        matched: the network, matched.
        model: the plain network.
        window: how many images the memory counts for at most.
        refresh: after how many images the maps are updated, at most.

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
        self._operations = {m.site: _StreamSite(self, m, before[m.site]) for m in matchers}
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
        """What the network returns for one or more images, which are added to the memory."""
        inputs = check_images(Inputs(args, kwargs)).on(self.network)
        check_shapes({name: tuple(x.shape[1:]) for name, x in inputs.named(self.network).items()}, self.statistics)
        self._waiting += inputs.images
        self._measures = inputs.images > 0 and self._waiting >= min(self.refresh, max(1, self._counted // GROWTH))
        try:
            with counting_calls():
                output = self.network(*inputs.args, **inputs.kwargs)
        except BaseException:  # some of the waiting features may be NaN, or missing
            self._forget_waiting()
            raise
        self.images += inputs.images
        if self._measures:
            self._waiting = 0
        return output

    def reset(self) -> None:
        """Forget everything seen so far."""
        self._detector, self.changes, self.images = ChangeDetector(), 0, 0
        for part in self._parts.values():
            part.moments = None
        self._forget_waiting()

    def save_memory(self, path: str | PathLike[str]) -> None:
        """Write the memory, so that another process can go on with it."""
        tensors, header = self.memory()
        save_tensors(path, tensors, kind=KIND, version=FORMAT, header=header)

    def load_memory(self, path: str | PathLike[str]) -> None:
        """Go on with a memory that `save_memory` has written for the same statistics."""
        tensors, header = load_tensors(path, kind=KIND, version=FORMAT)
        with parsing(path, "its memory", "Go on without it."):
            known = self.read(tensors, header, path)
        self.remember(known)

    def memory(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The memory as tensors and a header."""
        self._absorb_waiting()
        known = {name: part.moments for name, part in self._parts.items() if part.moments is not None}
        tensors = {f"{name}|{kind}": getattr(moments, kind) for name, moments in known.items() for kind in KINDS}
        counts = {name: moments.images for name, moments in known.items()}
        return tensors, {"counts": counts, "images": self.images, "changes": self.changes, "of": self._identity()}

    def read(self, tensors: Mapping[str, Tensor], header: Mapping[str, Any], path: str | PathLike[str]) -> Memory:
        """The memory in tensors and a header of a file; refused if it is not one of this network."""
        if header["of"] != self._identity():
            raise StatisticsMismatchError(f"{path} is the memory of a stream with other statistics; fit or load those.")
        known: dict[str, BatchMoments] = {}
        for name, count in header["counts"].items():
            mean, variance = (tensors[f"{name}|{kind}"] for kind in KINDS)
            target = self._parts[name].target
            if mean.numel() != target["mean"].numel() or variance.numel() != target["variance"].numel() or count < 0:
                raise ValueError(f"{name} has {mean.numel()} means, {variance.numel()} variances and {count} images")
            known[name] = BatchMoments(mean, variance, int(count))
        return Memory(int(header["images"]), int(header["changes"]), known)

    def remember(self, memory: Memory) -> None:
        """Go on with a memory that `read` has returned."""
        self.reset()
        self.images, self.changes = memory.images, memory.changes
        for name, moments in memory.moments.items():
            self._parts[name].moments = moments
            self._parts[name].prepare()

    @property
    def _counted(self) -> int:
        """Images that the memory counts for."""
        moments = self._first.moments
        return 0 if moments is None else int(moments.images)

    def _identity(self) -> str:
        return content_hash([self.statistics.weights, self.statistics.images, list(self.statistics)])

    def _apply(self, fn, recurse=True):  # type: ignore[no-untyped-def]
        """Moving or converting this network takes its memory along."""
        self._absorb_waiting()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for part in self._parts.values():
            part.prepare()
        return self

    def _absorb_waiting(self) -> None:
        if self._waiting:
            for operation in self._operations.values():
                operation.absorb()
            self._waiting = 0

    def _forget_waiting(self) -> None:
        self._waiting = 0
        for part in self._parts.values():
            part.waiting.clear()

    def _notice(self, features: Tensor) -> None:
        """Let older images fade at once where the corruption has changed."""
        if self._detector.changed(features, self.window):
            self.changes += 1
            for part in self._parts.values():
                if part.moments is not None:
                    part.moments = part.moments._replace(images=min(int(part.moments.images), KEPT_AFTER_CHANGE))


KINDS = ("mean", "variance")


class _Part:
    """One part of a site in a stream: its moments, features of images that are not in them yet, and its map."""

    moments: BatchMoments | None
    before: ChannelAffine | None

    def __init__(self, matcher: PartTarget, before: ChannelAffine | None, space: Sequence[int]) -> None:
        assert isinstance(matcher.covariance, Spectrum | ChannelMoments)
        self.structure, self.target, self.prior, self.space = matcher.covariance, matcher.target, matcher.prior, space
        self.batchnorm, self.moments = before, None
        self.waiting: list[Tensor] = []
        self.prepare()

    def prepare(self) -> None:
        """Make the map in the precision and on the device of the target, where the moments are taken, too."""
        gain, offset = torch.ones_like(self.target["variance"]), torch.zeros_like(self.target["mean"])
        self.unit = self.target.get("unit", 1.0)
        self.before = self.batchnorm and (self.batchnorm[0].to(gain), self.batchnorm[1].to(gain))
        self.map = map_of(self.structure, self.target, GainAndOffset(gain, offset), self.space)
        if self.moments is not None:
            self.moments = BatchMoments(
                self.moments.mean.to(offset), self.moments.variance.to(gain), self.moments.images
            )
            self.update_map()

    def absorb(self, window: int, per_image: int) -> None:
        """Add the waiting features to the moments, in which older images fade, and update the map."""
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
        """Compute the map from the moments."""
        assert self.moments is not None
        affine = self.structure.gain_and_offset(self.moments, self.target, self.prior)
        self.map.assign(affine if self.before is None else after(affine, *self.before, self.unit))


class _StreamSite:
    """The operation at a site of a stream."""

    def __init__(self, owner: StreamModel, matcher: SiteMatcher, before: ChannelAffine | None) -> None:
        self.owner, self.site = [owner], matcher.site  # in a list, so that modules do not hold each other
        spaces = matcher.site.layout.spaces(matcher.site.shape)
        self.parts = [_Part(part, before, space) for part, space in zip(matcher.parts, spaces, strict=True)]  # type: ignore[arg-type]
        whole = len(self.parts) == 1 and matcher.site.layout.channel == 1 and not matcher.site.is_input
        self._whole = whole and isinstance(self.parts[0].map, ImageMap)

    def __call__(self, x: Tensor) -> Tensor:
        self.site.check_shape(x)
        if len(x) == 0:
            return x
        if torch.is_autocast_enabled(x.device.type):
            with without_autocast(x.device.type):
                return self(x)
        if self._whole and not self.owner[0]._measures:  # the path of most images
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
        """Add the waiting features of all parts to the memory."""
        first, owner = self.parts[0], self.owner[0]
        if self.site.is_input and isinstance(first.structure, Spectrum):
            z = torch.cat(first.waiting)
            if z.isfinite().all():
                owner._notice(_describe(z, first.target, first.space))
        for part in self.parts:
            part.absorb(owner.window, self.site.per_image)


def _describe(z: Tensor, target: Mapping[str, Tensor], space: Sequence[int]) -> Tensor:
    """For every image, its level, and the logarithm of its energy in bands of frequency, each a mean over channels."""
    sides = space if z[0, 0].numel() == prod(space) else z.shape[2:]
    z = z.flatten(2)
    deviations = (z - target["mean"]).abs()
    energy = (deviations.square() / (target["variance"] + target["floor"])).mean(1)
    grids = torch.meshgrid(*((torch.arange(side) / side).double() for side in sides), indexing="ij")
    order = torch.stack(grids).sum(0).flatten().to(energy).argsort()
    bands = torch.stack([energy[:, band].mean(-1) for band in order[1:].tensor_split(BANDS)], dim=-1)
    level = (z[..., 0].real - target["mean"][:, 0].real).mean(1, keepdim=True)
    return torch.cat([level, (bands + 1e-6).log()], dim=-1).cpu()
