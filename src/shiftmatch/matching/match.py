"""fit: measure the training statistics of a network. match: the network that moves every batch to them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from math import ceil
from typing import Any, cast, get_args
from warnings import warn

import torch
from torch import Tensor, nn

from shiftmatch.core.covariance import Covariance
from shiftmatch.core.linalg import RootMethod
from shiftmatch.core.pieces import Rooms
from shiftmatch.core.transport import How, Together, alone
from shiftmatch.errors import (
    BatchTooSmallError,
    InputError,
    ShiftMatchError,
    SmallBatchWarning,
    StatisticsMismatchError,
)
from shiftmatch.matching.batchnorm import batch_statistics
from shiftmatch.matching.hooks import Visitor, borrowed, is_watched, named_inputs, submodule, visiting
from shiftmatch.matching.lockstep import DivergedError, Lockstep
from shiftmatch.matching.presets import Preset, preset_named
from shiftmatch.matching.selection import Choice
from shiftmatch.matching.selection import sites as find_sites
from shiftmatch.matching.site import Site, Sites
from shiftmatch.matching.splitting import Call, IndivisibleError, joined, treats_images_apart
from shiftmatch.matching.statistics import BatchNormMode, SiteStatistics, Statistics
from shiftmatch.utils.hashing import fingerprint
from shiftmatch.utils.progress import track

PIECE = 256
"""Images per batch when all training images come as one tensor."""

TOGETHER = 200
"""Images of a large batch that go through the network together between two sites: they stay in the cache."""

FEW_IMAGES = 100
"""Below this many images a batch's own statistics are so noisy that clean images suffer, unless a prior helps."""


def fit(
    model: nn.Module,
    batches: Iterable[Any],
    *,
    covariance: Covariance | type | None = None,
    batchnorm: str | None = None,
    sites: Sites | Choice | None = None,
    preset: str | Preset = "default",
    note: str = "",
    progress: bool = True,
) -> Statistics:
    """Measure the statistics of clean training data at every site: one pass, without labels or gradients.

    `batches` yields tensors or (inputs, labels) pairs, as a DataLoader does, or is one tensor of images; several
    inputs are a tuple in the first place. `covariance` is a structure such as Kronecker(), or its class; `batchnorm` is
    "eval" (running statistics) or "batch" (those of the batch); `sites` are chosen as in `shiftmatch.sites`.
    The model comes back unchanged.

    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    >>> fit(net, torch.randn(16, 3, 8, 8))
    2 sites, 16 images, ...
    """
    settings = _settled(preset_named(preset), covariance, batchnorm)
    inputs = (_on_device(model, _inputs_of(batch)) for batch in _as_batches(batches))
    first = next(inputs, None)
    if first is None:
        raise BatchTooSmallError("There are no batches to measure statistics from: the loader is empty.")
    places = sites if isinstance(sites, Sites) else find_sites(model, first, sites)
    measured: dict[str, SiteStatistics] = {}
    rooms = Rooms()

    def measure(site: Site, x: Tensor, ours: bool) -> None:
        entry = SiteStatistics.of(site, settings.covariance_at(site), x, rooms)
        measured[site.name] = measured[site.name] + entry if site.name in measured else entry

    images = 0
    for batch in track(chain([first], inputs), "measuring statistics", total=_length(batches), show=progress):
        images += len(batch[0])
        with torch.no_grad(), _lent(model, settings.batchnorm, places, measure):
            model(*batch)
    if images < 2:
        raise BatchTooSmallError(f"Statistics need at least 2 images, better 1,000 or more; there was {images}.")
    shapes = {name: tuple(x.shape[1:]) for name, x in named_inputs(model, first, {}).items()}
    return Statistics(measured, images, settings.batchnorm, fingerprint(model), shapes, note)


def match(
    model: nn.Module,
    statistics: Statistics,
    *,
    prior: float | int = 0,
    check_weights: bool = True,
    measured_on: int | None = None,
    roots: str = "auto",
) -> "MatchedModel":
    """The network that moves each batch, site by site, to the statistics of its training data.

    The moments of a batch of n images are mixed with the training moments with weight N/(N+n), N = `prior`: 0 is
    the paper's method. `model` itself stays as it was, and shares its weights with what is returned.

    `measured_on` estimates the moments of a batch on at most so many of its images, evenly spread, which is faster and
    less exact. `roots` is how they are taken: "auto" means "eigh", and "newton-schulz" for large matrices on a GPU.

    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    >>> images = torch.randn(128, 3, 8, 8)
    >>> robust = match(net, fit(net, images))
    >>> torch.allclose(robust(images), net(images), atol=1e-4)
    True
    """
    if not prior >= 0:
        raise InputError(f"prior is a number of images that the training statistics count for, 0 or more; got {prior}.")
    if measured_on is not None and measured_on < 2:
        raise InputError(f"measured_on is a number of images, 2 or more; got {measured_on}.")
    if roots not in get_args(RootMethod):
        raise InputError(f"roots is one of {', '.join(get_args(RootMethod))}; got {roots!r}.")
    for entry in statistics.values():
        if not entry.site.is_input:
            submodule(model, entry.site.module)
    if check_weights and fingerprint(model) != statistics.weights:
        raise StatisticsMismatchError(
            f"The weights of this {type(model).__name__} are not those that the statistics were measured with (field "
            "'weights'). Fit again with shiftmatch.fit(model, batches), or pass check_weights=False if the change is "
            "meant, such as another precision."
        )
    return MatchedModel(model, statistics, prior, measured_on=measured_on, roots=cast(RootMethod, roots))


class MatchedModel(nn.Module):
    """A network that matches every batch to its training statistics. It always runs in evaluation mode."""

    def __init__(
        self,
        model: nn.Module,
        statistics: Statistics,
        prior: float | int,
        *,
        measured_on: int | None = None,
        roots: RootMethod = "auto",
    ) -> None:
        super().__init__()
        self.model = model
        self.statistics = statistics
        self.prior = prior
        self.measured_on = measured_on
        self.roots = roots
        self._divisible: dict[str, bool] = {}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the network returns, for features matched to those of its training data."""
        call = Call(args, kwargs, self._checked_size(named_inputs(self.model, args, kwargs)))
        if self._can_be_split(call):
            try:
                return self._in_pieces(call)
            except (DivergedError, IndivisibleError):
                self._divisible[call.form] = False
        with self._lent(call.images, lambda site: alone):
            return call.of(self.model)

    def _in_pieces(self, call: Call) -> Any:
        """Passes over pieces that stay in the cache between two sites, where they learn of each other."""
        pieces, lockstep = call.split(TOGETHER), Lockstep()
        with self._lent(call.images, lambda site: partial(lockstep.together, site.name)):
            outputs = lockstep.run([partial(piece.of, self.model) for piece in pieces])
        return joined(outputs, [piece.images for piece in pieces])

    def _lent(self, images: int, together: Callable[[Site], Together]) -> AbstractContextManager[None]:
        every = ceil(images / self.measured_on) if images and self.measured_on else 1
        weight = self.prior / (self.prior + ceil(images / every)) if images else 0.0
        how = How(weight=weight, every=every, roots=self.roots, rooms=Rooms())

        def move(site: Site, x: Tensor, ours: bool) -> Tensor:
            return self.statistics[site.name].match(x, **how | {"in_place": ours, "together": together(site)})

        return _lent(self.model, self.statistics.batchnorm, self._places, move)

    @property
    def _places(self) -> list[Site]:
        return [entry.site for entry in self.statistics.values()]

    def _can_be_split(self, call: Call) -> bool:
        """Whether the network may be run on pieces of this batch: it must not be able to tell."""
        if call.images < 2 * TOGETHER or torch.is_grad_enabled() or any(x.device.type != "cpu" for x in call.tensors):
            return False
        if self.measured_on or self.statistics.batchnorm == "batch" or is_watched(self.model):
            return False
        if call.form not in self._divisible:
            simple = not any(site.function for site in self._places)
            with borrowed(self.model):
                self._divisible[call.form] = simple and treats_images_apart(self.model, call, self._places)
        return self._divisible[call.form]

    def extra_repr(self) -> str:
        subset = f", measured_on={self.measured_on}" if self.measured_on else ""
        return f"{len(self.statistics)} sites, prior={self.prior}{subset}, roots={self.roots}"

    def _checked_size(self, inputs: dict[str, Tensor]) -> int:
        """The number of images in a batch that can be matched."""
        shapes = {name: tuple(x.shape[1:]) for name, x in inputs.items()}
        if shapes != self.statistics.inputs:
            raise InputError(
                f"The statistics were measured for inputs of shape {_listed(self.statistics.inputs)} ; "
                f"got {_listed(shapes)}. Resize the images, or fit again on images of this shape."
            )
        images = max(map(len, inputs.values()))
        advice = "mix in the training statistics: shiftmatch.match(model, statistics, prior=32)."
        if images == 1 and self.prior == 0:
            raise BatchTooSmallError(f"One image has no statistics of its own to match. Pass a batch, or {advice}")
        enough = max(FEW_IMAGES, self.statistics.images_wanted)
        if 0 < images < enough and self.prior == 0:
            warn(
                f"{images} images are few to take statistics from ({enough} or more work well here); "
                f"matching may harm clean images. Pass larger batches, or {advice}",
                SmallBatchWarning,
                stacklevel=2,
            )
        return images


@contextmanager
def _lent(model: nn.Module, batchnorm: BatchNormMode, places: Iterable[Site], visit: Visitor) -> Iterator[None]:
    """A network in evaluation mode, BatchNorm as wanted, with a visitor that names the site in its errors."""

    def checked(site: Site, x: Tensor, ours: bool) -> Tensor | None:
        if tuple(x.shape[1:]) != site.shape:
            raise InputError(
                f"Site {site.name!r} has features of shape {tuple(x.shape[1:])}; they were {site.shape} when it was "
                "found. All images must have one size: resize them, or fit again."
            )
        try:
            return visit(site, x, ours)
        except ShiftMatchError as error:
            raise type(error)(f"At site {site.name!r}: {error}") from None

    with ExitStack() as stack:
        stack.enter_context(borrowed(model))
        if batchnorm == "batch":
            stack.enter_context(batch_statistics(model))
        stack.enter_context(visiting(model, places, checked))
        yield


def _settled(preset: Preset, covariance: Covariance | type | None, batchnorm: str | None) -> Preset:
    """The preset with what the user has said in its place."""
    structure = covariance() if isinstance(covariance, type) else covariance
    if structure is not None:
        preset = replace(preset, covariance=structure, input_tolerance=structure.tolerance)
    match batchnorm:
        case None:
            return preset
        case "eval" | "batch":
            return replace(preset, batchnorm=batchnorm)
    raise InputError(f"batchnorm is 'eval' (running statistics) or 'batch' (those of the batch); got {batchnorm!r}.")


def _as_batches(batches: Iterable[Any]) -> Iterable[Any]:
    return batches.split(PIECE) if isinstance(batches, Tensor) else batches


def _length(batches: Iterable[Any]) -> int | None:
    try:
        return len(_as_batches(batches))  # type: ignore[arg-type]
    except TypeError:  # an iterator, or a loader of unknown length
        return None


def _inputs_of(batch: object) -> tuple[Tensor, ...]:
    inputs = batch if isinstance(batch, Tensor) else batch[0] if isinstance(batch, list | tuple) and batch else None
    inputs = (inputs,) if isinstance(inputs, Tensor) else inputs
    if not isinstance(inputs, list | tuple) or not all(isinstance(x, Tensor) for x in inputs):
        raise InputError(
            f"A batch is a tensor, or inputs and labels with the inputs first (a tensor or a tuple of tensors); "
            f"got {type(batch).__name__}."
        )
    return tuple(inputs)


def _on_device(model: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Inputs where the model is, in its precision."""
    like = next((p for p in model.parameters() if p.is_floating_point()), None)
    if like is None:
        return inputs
    return tuple(x.to(like.device, like.dtype if x.is_floating_point() else x.dtype) for x in inputs)


def _listed(shapes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(" × ".join(map(str, shape)) for shape in shapes.values()) or "nothing that is an image"
