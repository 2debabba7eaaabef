"""What a forward pass shows: mean and variance of every channel of every image at the sites, and those of training."""

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, final

from jaxtyping import Float
from torch import Tensor, nn

from shiftmatch.core.distance import channel_distances
from shiftmatch.core.moments import Moments
from shiftmatch.matching.classes import ClassMoments, image_moments, moment_distance
from shiftmatch.matching.inputs import Inputs, logits_of
from shiftmatch.matching.instrument import counting_calls, instrument
from shiftmatch.matching.matched import MatchedModel
from shiftmatch.matching.statistics import SiteStatistics, Statistics
from shiftmatch.matching.twin import TwinModel


@final
@dataclass(frozen=True, eq=False)
class PartView:
    """The channels of one part of a site in one pass, image by image, and what they were in training."""

    mean: Float[Tensor, "n c"]
    variance: Float[Tensor, "n c"]
    train: Moments
    classes: ClassMoments | None


@final
@dataclass(frozen=True, eq=False)
class Observed:
    """All sites of one pass."""

    parts: Sequence[PartView]

    @property
    def images(self) -> int:
        """How many there were."""
        return len(self.parts[0].mean) if self.parts else 0

    def unshifted(self, images: int) -> bool:
        """Whether all channels are within sampling error of training, of which so many images were measured."""
        return bool(self.parts) and all(
            len(part.mean) > 1
            and all(distance.inside for distance in channel_distances(part.mean, part.variance, part.train, images))
            for part in self.parts
        )

    @property
    def distance(self) -> float:
        """How far channels are from training: the mean of KL(test ‖ training)."""
        return sum(moment_distance(p.mean, p.variance, p.train) for p in self.parts) / max(1, len(self.parts))

    @property
    def class_shift(self) -> float:
        """How far the last features are from training along the differences of classes; 0 if classes are not known."""
        last = self.parts[-1] if self.parts else None
        return last.classes.shift(last.mean) if last and last.classes else 0.0


_parts: ContextVar[list[PartView]] = ContextVar("shiftmatch_observed")
"""What the forward pass of this thread has shown so far; unset where nobody asks for it."""


def observed(network: nn.Module, inputs: Inputs) -> tuple[Float[Tensor, "b k"], Observed]:
    """The log-probabilities of a network that can be observed, and what its pass has shown."""
    token = _parts.set([])
    try:
        log_p = logits_of(network(*inputs.args, **inputs.kwargs)).log_softmax(-1)
        return log_p, Observed(_parts.get())
    finally:
        _parts.reset(token)


class _Observer:
    """The operation at a site of an observable network: it notes the moments, and returns the features unchanged."""

    def __init__(self, entry: SiteStatistics) -> None:
        self.site, self.train = entry.site, entry.channel_moments()
        self.classes = entry.classes or [None] * len(self.train)

    def __call__(self, x: Tensor) -> Tensor:
        found = _parts.get(None)
        if found is not None and len(x):
            images = len(x) // self.site.per_image
            parts = zip(self.site.layout.split(x.detach()), self.train, self.classes, strict=True)
            found += [PartView(*_by_image(image_moments(part), images), train, known) for part, train, known in parts]
        return x

    def before(self, site: nn.Module, args: tuple[Tensor, ...]) -> None:
        """The hook of a module that is called with the features."""
        self(args[0])


def _by_image(moments: tuple[Tensor, Tensor], images: int) -> tuple[Tensor, Tensor]:
    """The moments of images from those of their windows."""
    if len(moments[0]) == images:
        return moments
    mean, variance = (x.unflatten(0, (images, -1)) for x in moments)
    return mean.mean(1), variance.mean(1) + mean.var(1, correction=0)


def observable(network: MatchedModel) -> MatchedModel:
    """The same network, whose features can be observed before they are matched."""
    for site in network.sites:
        site.register_forward_pre_hook(_Observer(site.entry).before)  # type: ignore[arg-type]
    return network


class PlainModel(TwinModel):
    """The network as it is, in evaluation mode; its features can be observed."""

    def __init__(self, model: nn.Module, statistics: Statistics) -> None:
        super().__init__()
        self.network = instrument(model, {entry.site: _Observer(entry) for entry in statistics.values()})

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        inputs = Inputs(args, kwargs).on(self.network)
        with counting_calls():
            return self.network(*inputs.args, **inputs.kwargs)
