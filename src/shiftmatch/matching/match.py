"""fit: measure the training statistics of a network. match: the network that moves every batch to them."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import chain
from os import PathLike
from typing import Any, Literal, TypeAlias, overload

import torch
from torch import Tensor, nn

from shiftmatch.core.covariance import Covariance, SpatialKronecker
from shiftmatch.core.fingerprint import measure_fingerprint
from shiftmatch.core.linalg import EigenvalueFloor, Regularisation
from shiftmatch.core.spectrum import ChannelMoments, Prior, Spectrum
from shiftmatch.errors import BatchTooSmallError, InputError
from shiftmatch.matching.batchnorm import BatchNormMode
from shiftmatch.matching.classes import ClassMoments, class_probabilities, image_moments
from shiftmatch.matching.distributed import add_over_processes
from shiftmatch.matching.inputs import BATCH_SIZE, INPUT, Inputs, batches_of, check_images
from shiftmatch.matching.instrument import counting_calls, instrument
from shiftmatch.matching.matched import MatchedModel
from shiftmatch.matching.matcher import measuring_at
from shiftmatch.matching.observed import PlainModel
from shiftmatch.matching.sites import Choice, Site, Sites
from shiftmatch.matching.sites import sites as find_sites
from shiftmatch.matching.statistics import SiteStatistics, Statistics
from shiftmatch.matching.strength import AutoMatchedModel
from shiftmatch.utils.hashing import weight_hashes
from shiftmatch.utils.parallel import restoring_grad_mode, track

__all__ = ["MatchedModel", "PriorImages", "fit", "match", "prior_of"]

PriorImages: TypeAlias = float | int | tuple[float | int, float | int]
"""How many images the training statistics count for: a number, or one for moments and one for the shape."""

INFINITY = float("inf")


@dataclass(frozen=True)
class Preset:
    """What `fit` does where it is not told otherwise; the input may have a covariance of its own.

    Args:
        covariance: the structure at every site.
        input_covariance: the structure at the input, if it is another.
        batchnorm: "eval" (running statistics) or "batch" (those of the batch).

    >>> Preset().covariance
    Spectrum(basis='dct', floor=0.0001)
    """

    covariance: Covariance = field(default_factory=Spectrum)
    input_covariance: Covariance | None = None
    batchnorm: BatchNormMode = "eval"

    def covariance_at(self, site: Site) -> Covariance:
        """The structure at a site."""
        return self.input_covariance if site.is_input and self.input_covariance else self.covariance


def paper(*, pixel_std: float = 1.0) -> Preset:
    """The published method: rows, then columns, with the constants of the authors' code and BatchNorm on the batch.

    Their floor at the input, 1e-3, is meant for pixels in [0, 1].

    Args:
        pixel_std: what pixels from 0 to 1 are divided by before they enter the network.

    >>> paper().batchnorm, paper().covariance.regularisation.test
    ('batch', EigenvalueFloor(jitter=0.001, rtol=..., atol=1e-08))
    """
    train = EigenvalueFloor(rtol=0.0, atol=1e-8)
    inner = Regularisation(test=EigenvalueFloor(jitter=1e-3, rtol=0.0, atol=1e-8), train=train)
    at_input = Regularisation(test=EigenvalueFloor(rtol=0.0, atol=1e-3 / pixel_std**2), train=train)
    return Preset(SpatialKronecker(inner), SpatialKronecker(at_input), "batch")


PRESETS = {"default": Preset(), "paper": paper()}


@restoring_grad_mode()
def fit(
    model: nn.Module,
    data: Iterable[Any],
    *,
    covariance: Covariance | type | None = None,
    batchnorm: str | None = None,
    sites: Sites | Choice | None = None,
    preset: str | Preset = "default",
    note: str = "",
    classes: Iterable[str] = (),
    preprocessing: dict[str, Any] | None = None,
    batch_size: int = BATCH_SIZE,
    device: torch.device | str | None = None,
    across_processes: bool = False,
    progress: bool = True,
) -> Statistics:
    """Measure the statistics of clean training data at every site: one pass, without labels or gradients.

    Args:
        model: the trained network; it stays as it was.
        data: a DataLoader or any iterable of batches (tensors, (inputs, labels) pairs, dictionaries), or one tensor.
        covariance: a structure such as Spectrum() (the default) or SpatialKronecker(), or its class.
        batchnorm: "eval" (running statistics, the default) or "batch" (those of the batch, as in the paper).
        sites: which sites, chosen as in `shiftmatch.sites`.
        preset: "default", or "paper" for the published method.
        note: your own words, kept with the statistics.
        classes: the names of the classes, in the order of the network's outputs; kept.
        preprocessing: how pixels became inputs, such as {"mean": [...], "std": [...]}; kept.
        batch_size: images per batch, where `data` is one tensor.
        device: where to run; the model's own device unless given.
        across_processes: whether `data` is one process's share under torch.distributed; all then get the sum.
        progress: whether to show a bar.

    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    >>> fit(net, torch.randn(16, 3, 8, 8))
    2 sites, 16 images, ...
    """
    settings = _settings(preset, covariance, batchnorm)
    batches = batches_of(data, batch_size)
    every = (Inputs.of(batch).on(model, device) for batch in batches)
    inputs = (batch for batch in every if check_images(batch).images)
    first = next(inputs, None)
    if first is None:
        raise BatchTooSmallError("There are no images to measure statistics from: the loader is empty.")
    places = sites if isinstance(sites, Sites) else find_sites(model, first, sites)
    recorders = {site: _Recorder(site, settings.covariance_at(site)) for site in places}
    network = instrument(model, recorders, settings.batchnorm).to(device)
    images, prints = 0, None
    for batch in track(chain([first], inputs), "measuring statistics", total=_length(batches), show=progress):
        new = measure_fingerprint(x) if (x := batch.named(network).get(INPUT)) is not None else None
        prints = prints + new if prints and new else new
        images += batch.images
        with torch.no_grad(), counting_calls():
            p = class_probabilities(network(*batch.args, **batch.kwargs), batch.images)
        for recorder in recorders.values():
            recorder.finish(p)
    found = Statistics(
        {site.name: recorder.measured for site, recorder in recorders.items() if recorder.measured},
        images,
        settings.batchnorm,
        weight_hashes(model),
        {name: tuple(x.shape[1:]) for name, x in first.named(network).items()},
        note,
        tuple(classes),
        dict(preprocessing or {}),
        prints,
    )
    if across_processes:
        found = add_over_processes(found)
    if found.images < 2:
        raise BatchTooSmallError(f"Statistics need at least 2 images, better 1,000 or more; there was {found.images}.")
    return found


@overload
def match(
    model: nn.Module,
    statistics: Statistics,
    *,
    strength: Literal["auto"],
    prior_images: PriorImages | None = None,
    check_weights: bool = True,
) -> AutoMatchedModel: ...
@overload
def match(
    model: nn.Module,
    statistics: Statistics,
    *,
    strength: Literal["full", "moments"] | float | int = "full",
    prior_images: PriorImages | None = None,
    check_weights: bool = True,
    across_processes: bool = False,
) -> MatchedModel: ...
def match(
    model: nn.Module,
    statistics: Statistics,
    *,
    strength: str | float | int = "full",
    prior_images: PriorImages | None = None,
    check_weights: bool = True,
    across_processes: bool = False,
) -> MatchedModel | AutoMatchedModel:
    """The network that moves each batch, site by site, to the statistics of its training data.

    Args:
        model: the trained network; it stays as it was, and shares its weights with what is returned.
        statistics: what `fit` has measured in it.
        strength: how far to match. "full" is one pass per batch. "auto" averages plain, channel moments and spectrum,
            weighted by how sure the network is of the batch: three passes, less matching where that makes it unsure,
            one pass where the batch is within sampling error of training; its outputs are log-probabilities.
            "moments" matches channel moments only, and a number from 0 (plain) to 1 (full) lets the training
            statistics count for so many times more images.
        prior_images: how many images the training statistics count for against the n of a batch, that is with weight
            N/(N+n); for a Spectrum a pair, in the channels' moments and in the shape of the spectrum. 0 trusts only
            the batch, infinity leaves the features as they are. The default is that of the covariance.
        check_weights: whether to refuse a network with other weights than the one that was fitted.
        across_processes: whether the batches of all processes under torch.distributed are matched as one, with one
            all-reduce per site; their shares may differ in size. "auto" decides within one process.

    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    >>> images = torch.randn(128, 3, 8, 8)
    >>> statistics = fit(net, images)
    >>> torch.allclose(match(net, statistics)(images), net(images), atol=1e-4)
    True
    >>> match(net, statistics, strength="auto").explain(images).weights
    {'plain': 1.0}
    """
    if not isinstance(statistics, Statistics):
        hint = f"shiftmatch.Statistics.load({str(statistics)!r})" if isinstance(statistics, str | PathLike) else ""
        raise InputError(
            f"match takes the Statistics that fit has measured; got a {type(statistics).__name__}. "
            f"Pass {hint or 'shiftmatch.fit(model, data)'}."
        )
    if across_processes and strength == "auto":
        raise InputError("strength='auto' looks at the images of one process; use 'full' across processes.")
    wanted = prior_of(prior_images)
    full = MatchedModel(model, statistics, prior=wanted, check_weights=check_weights, across_processes=across_processes)
    if strength in ("full", 1):
        return full
    prior: Prior = full.sites[0].prior  # type: ignore[assignment]

    def matched(*pair: float) -> MatchedModel:
        return MatchedModel(
            model, statistics, prior=Prior(*pair), check_weights=False, across_processes=across_processes
        )

    match strength:
        case "auto" | "moments":
            _check_spectra(statistics)
            moments = matched(prior.moments, INFINITY)
            if strength == "moments":
                return moments
            return AutoMatchedModel(statistics, PlainModel(model, statistics), moments, full)
        case int() | float() if 0 <= strength <= 1:
            return matched(*(INFINITY if strength == 0 else max(images, 1) / strength for images in prior))
    raise InputError(f"strength is 'full', 'moments', 'auto' or a number from 0 to 1; got {strength!r}.")


class _Recorder:
    """The operation at a site while statistics are measured: features are returned unchanged."""

    def __init__(self, site: Site, covariance: Covariance) -> None:
        self.site, self.covariance = site, covariance
        self.measured: SiteStatistics | None = None
        self._seen: list[tuple[SiteStatistics, list[tuple[Tensor, Tensor]]]] = []  # in this pass; moments of each image

    def __call__(self, x: Tensor) -> Tensor:
        self.site.check_shape(x)
        with measuring_at(self.site, x):
            entry = SiteStatistics.of(self.site, self.covariance, x)
        by_class = isinstance(self.covariance, Spectrum | ChannelMoments)
        parts = self.site.layout.split(x.detach()) if by_class else []
        self._seen.append((entry, [image_moments(part) for part in parts]))
        return x

    def finish(self, p: Tensor | None) -> None:
        """Add what this pass has measured, by class too where the network gives the images probabilities."""
        for found, images in self._seen:
            classes = [ClassMoments.of(*moments, p) for moments in images] if p is not None else []
            entry = replace(found, classes=tuple(classes))
            self.measured = self.measured + entry if self.measured else entry
        self._seen = []


def _settings(preset: str | Preset, covariance: Covariance | type | None, batchnorm: str | None) -> Preset:
    """The preset, with what the user has chosen in its place."""
    if isinstance(preset, str):
        if preset not in PRESETS:
            raise InputError(f"There is no preset {preset!r}; choose one of {', '.join(PRESETS)}, or pass a Preset.")
        preset = PRESETS[preset]
    structure = covariance() if isinstance(covariance, type) else covariance
    if structure is not None:
        if not isinstance(structure, Covariance):
            raise InputError(f"covariance is a structure such as shiftmatch.Spectrum(); got {covariance!r}.")
        preset = replace(preset, covariance=structure, input_covariance=None)
    match batchnorm:
        case None:
            return preset
        case "eval" | "batch":
            return replace(preset, batchnorm=batchnorm)
    raise InputError(f"batchnorm is 'eval' (running statistics) or 'batch' (those of the batch); got {batchnorm!r}.")


def prior_of(images: Any) -> Prior | None:
    """The prior that `prior_images` stands for."""
    if images is None:
        return None
    pair = images if isinstance(images, tuple | list) else (images, images)
    numbers = all(isinstance(n, int | float) and not isinstance(n, bool) and n >= 0 for n in pair)
    if len(pair) != 2 or not numbers:
        raise InputError(
            "prior_images is how many images the training statistics count for: a number from 0 to infinity, or a pair "
            f"of them (channel moments, shape of the spectrum); got {images!r}."
        )
    return Prior(*map(float, pair))


def _check_spectra(statistics: Statistics) -> None:
    for entry in statistics.values():
        if not isinstance(entry.covariance, Spectrum | ChannelMoments):
            raise InputError(
                f"This strength needs the nested family of a spectrum; {entry.site.name!r} was fitted with "
                f"{type(entry.covariance).__name__}. Fit with covariance=shiftmatch.Spectrum(), or use strength='full'."
            )


def _length(batches: Iterable[Any]) -> int | None:
    try:
        return len(batches)  # type: ignore[arg-type]
    except TypeError:  # an iterator, or a loader of unknown length
        return None
