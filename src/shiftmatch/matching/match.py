"""fit: measure the training statistics of a network. match: the network that moves every batch to them."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from os import PathLike
from typing import Any, TypeAlias
from warnings import warn

import torch
from torch import Tensor, nn

from shiftmatch.core.covariance import Covariance
from shiftmatch.core.spectrum import Prior
from shiftmatch.errors import (
    BatchTooSmallError,
    InputError,
    OtherSizeWarning,
    ShiftMatchError,
    SmallBatchWarning,
    StatisticsMismatchError,
)
from shiftmatch.matching.inputs import BATCH_SIZE, Inputs, batches_of, check_images
from shiftmatch.matching.instrument import counting_calls, instrument, needs_call_counts, submodule
from shiftmatch.matching.matcher import SiteMatcher
from shiftmatch.matching.presets import Preset, preset_named
from shiftmatch.matching.selection import Choice
from shiftmatch.matching.selection import sites as find_sites
from shiftmatch.matching.site import Site, Sites
from shiftmatch.matching.statistics import SiteStatistics, Statistics
from shiftmatch.utils.hashing import weight_hashes
from shiftmatch.utils.progress import track

PriorImages: TypeAlias = float | int | tuple[float | int, float | int]
"""How many images the training statistics count for: a number, or one for moments and one for the shape."""

FEW_IMAGES = 100
"""Below this many images a batch's own statistics are so noisy that clean images suffer, unless a prior helps."""


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
        progress: whether to show a bar.

    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    >>> fit(net, torch.randn(16, 3, 8, 8))
    2 sites, 16 images, ...
    """
    settings = _with_choices(preset_named(preset), covariance, batchnorm)
    batches = batches_of(data, batch_size)
    inputs = (_checked(Inputs.of(batch).on(model, device)) for batch in batches)
    first = next(inputs, None)
    if first is None:
        raise BatchTooSmallError("There are no batches to measure statistics from: the loader is empty.")
    places = sites if isinstance(sites, Sites) else find_sites(model, first, sites)
    recorders = {site: _Recorder(site, settings.covariance_at(site)) for site in places}
    network = instrument(model, recorders, settings.batchnorm).to(device)
    images = 0
    for batch in track(chain([first], inputs), "measuring statistics", total=_length(batches), show=progress):
        images += batch.images
        with torch.no_grad(), counting_calls():
            network(*batch.args, **batch.kwargs)
    if images < 2:
        raise BatchTooSmallError(f"Statistics need at least 2 images, better 1,000 or more; there was {images}.")
    return Statistics(
        {site.name: recorder.measured for site, recorder in recorders.items() if recorder.measured},
        images,
        settings.batchnorm,
        weight_hashes(model),
        {name: tuple(x.shape[1:]) for name, x in first.named(network).items()},
        note,
        tuple(classes),
        dict(preprocessing or {}),
    )


def match(
    model: nn.Module,
    statistics: Statistics,
    *,
    prior_images: PriorImages | None = None,
    check_weights: bool = True,
) -> "MatchedModel":
    """The network that moves each batch, site by site, to the statistics of its training data.

    Args:
        model: the trained network; it stays as it was, and shares its weights with what is returned.
        statistics: what `fit` has measured in it.
        prior_images: how many images the training statistics count for beside the n of a batch, that is with weight
            N/(N+n); for a Spectrum a pair, in the channels' moments and in the shape of the spectrum. 0 trusts the
            batch alone, infinity leaves the features alone. The default is that of the covariance.
        check_weights: whether to refuse a network with other weights than the one that was fitted.

    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    >>> images = torch.randn(128, 3, 8, 8)
    >>> robust = match(net, fit(net, images))
    >>> torch.allclose(robust(images), net(images), atol=1e-4)
    True
    """
    if not isinstance(statistics, Statistics):
        hint = f"shiftmatch.Statistics.load({str(statistics)!r})" if isinstance(statistics, str | PathLike) else ""
        raise InputError(
            f"match takes the Statistics that fit has measured; got a {type(statistics).__name__}. "
            f"Pass {hint or 'shiftmatch.fit(model, data)'}."
        )
    return MatchedModel(model, statistics, prior=_prior(prior_images), check_weights=check_weights)


class MatchedModel(nn.Module):
    """A network that matches every batch to its training statistics. It always runs in evaluation mode.

    It is a twin of the network with the same weights and the matching built in, so that it can be called from several
    threads, compiled and exported; attributes that it does not have are those of the network.
    """

    def __init__(
        self, model: nn.Module, statistics: Statistics, *, prior: Prior | None = None, check_weights: bool = True
    ) -> None:
        super().__init__()
        for entry in statistics.values():
            if not entry.site.is_input:
                submodule(model, entry.site.module)
        if check_weights:
            _check_weights(model, statistics)
        self.statistics, self.prior = statistics, prior
        dtype = next((torch.float64 for p in model.parameters() if p.dtype == torch.float64), torch.float32)
        matchers = {entry.site: SiteMatcher(entry, prior, dtype) for entry in statistics.values()}
        self.sites = nn.ModuleList(matchers.values())
        self.network = instrument(model, matchers, statistics.batchnorm)
        self._counts_calls = needs_call_counts(matchers)
        self.sites.to(next((p.device for p in model.parameters()), None))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the network returns, for features matched to those of its training data."""
        if torch.compiler.is_compiling():
            return self.network(*args, **kwargs)
        inputs = self._checked(Inputs(args, kwargs))
        if not self._counts_calls:
            return self.network(*inputs.args, **inputs.kwargs)
        with counting_calls():
            return self.network(*inputs.args, **inputs.kwargs)

    def train(self, mode: bool = True) -> "MatchedModel":
        """Stays in evaluation mode."""
        return self

    def extra_repr(self) -> str:
        shown = self.prior or "default"
        return f"{len(self.statistics)} sites, prior_images={tuple(self.prior) if self.prior else shown}"

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_") or "network" not in self._modules:
                raise
            return getattr(self._modules["network"], name)

    def _apply(self, fn, recurse=True):  # type: ignore[no-untyped-def]
        """Moving or converting this network leaves the one that it shares its weights with alone."""
        _unshare(self.network)
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    def _checked(self, inputs: Inputs) -> Inputs:
        """Inputs that can be matched, where the network is."""
        check_images(inputs)
        inputs = inputs.on(self.network)
        named = inputs.named(self.network)
        shapes = {name: tuple(x.shape[1:]) for name, x in named.items()}
        if not _alike(shapes, self.statistics.inputs):
            raise InputError(
                f"The statistics were measured for inputs of shape {_listed(self.statistics.inputs)} ; "
                f"got {_listed(shapes)}. Resize the images, or fit again on images of this shape."
            )
        if shapes != self.statistics.inputs:
            warn(
                f"The statistics were measured on {_listed(self.statistics.inputs)} and get {_listed(shapes)}: spectra "
                "are resampled. Fit again on images of this size for exact statistics.",
                OtherSizeWarning,
                stacklevel=4,
            )
        self._check_size(max(map(len, named.values())))
        return inputs

    def _check_size(self, images: int) -> None:
        """Refuse, or warn of, batches that are too small for their prior."""
        if any(max(site.prior) > 0 for site in self._modules["sites"]):  # type: ignore[union-attr]
            return
        advice = "mix in the training statistics: shiftmatch.match(model, statistics, prior_images=32)."
        if images == 1:
            raise BatchTooSmallError(f"One image has no statistics of its own to match. Pass a batch, or {advice}")
        enough = max(FEW_IMAGES, self.statistics.images_wanted)
        if 0 < images < enough:
            warn(
                f"{images} images are few to take statistics from ({enough} or more work well here); "
                f"matching may harm clean images. Pass larger batches, or {advice}",
                SmallBatchWarning,
                stacklevel=5,
            )


class _Recorder:
    """The operation at a site while statistics are measured: features pass through."""

    def __init__(self, site: Site, covariance: Covariance) -> None:
        self.site, self.covariance = site, covariance
        self.measured: SiteStatistics | None = None

    def __call__(self, x: Tensor) -> Tensor:
        if tuple(x.shape[1:]) != self.site.shape:
            raise InputError(
                f"Site {self.site.name!r} has features of shape {tuple(x.shape[1:])}; they were {self.site.shape} when "
                "it was found. All images must have one size: resize them, or fit again."
            )
        try:
            with torch.autocast(x.device.type, enabled=False):
                entry = SiteStatistics.of(self.site, self.covariance, x)
        except ShiftMatchError as error:
            raise type(error)(f"At site {self.site.name!r}: {error}") from None
        self.measured = self.measured + entry if self.measured else entry
        return x


def _with_choices(preset: Preset, covariance: Covariance | type | None, batchnorm: str | None) -> Preset:
    """The preset with what the user has said in its place."""
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


def _prior(images: Any) -> Prior | None:
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


def _check_weights(model: nn.Module, statistics: Statistics) -> None:
    ours, theirs = weight_hashes(model), statistics.weights
    odd = next((name for name in [*theirs, *ours] if ours.get(name) != theirs.get(name)), None)
    if odd is not None:
        raise StatisticsMismatchError(
            f"The weights of this {type(model).__name__} are not those that the statistics were measured with: "
            f"{odd!r} differs. Fit again with shiftmatch.fit(model, data), or pass check_weights=False if that is "
            "meant, such as another precision."
        )


def _unshare(network: nn.Module) -> None:
    """Parameters of its own, over the same memory until they are converted."""
    own: dict[int, nn.Parameter] = {}
    for module in network.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                new = own.setdefault(id(parameter), nn.Parameter(parameter.detach(), parameter.requires_grad))
                module._parameters[name] = new


def _checked(inputs: Inputs) -> Inputs:
    check_images(inputs)
    return inputs


def _length(batches: Iterable[Any]) -> int | None:
    try:
        return len(batches)  # type: ignore[arg-type]
    except TypeError:  # an iterator, or a loader of unknown length
        return None


def _alike(shapes: dict[str, tuple[int, ...]], fitted: dict[str, tuple[int, ...]]) -> bool:
    """Whether inputs are the fitted ones, but perhaps for the size of their maps; sites say whether that can be."""

    def fits(shape: tuple[int, ...], known: tuple[int, ...]) -> bool:
        return shape == known or (len(shape) == len(known) > 1 and shape[0] == known[0])

    return shapes.keys() == fitted.keys() and all(fits(shape, fitted[name]) for name, shape in shapes.items())


def _listed(shapes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(" × ".join(map(str, shape)) for shape in shapes.values()) or "nothing that is an image"
