"""The matched network: a twin of a network that moves every batch to the statistics of its training data."""

from typing import Any
from warnings import warn

import torch
from torch import nn

from shiftmatch.core.spectrum import Prior
from shiftmatch.errors import (
    BatchTooSmallError,
    InputError,
    OtherSizeWarning,
    SmallBatchWarning,
    StatisticsMismatchError,
)
from shiftmatch.matching.inputs import Inputs, check_images
from shiftmatch.matching.instrument import counting_calls, instrument, needs_call_counts, submodule
from shiftmatch.matching.matcher import SiteMatcher
from shiftmatch.matching.statistics import Statistics
from shiftmatch.utils.hashing import weight_hashes

FEW_IMAGES = 100
"""Below this many images a batch's own statistics are so noisy that clean images suffer, unless a prior helps."""


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


def _alike(shapes: dict[str, tuple[int, ...]], fitted: dict[str, tuple[int, ...]]) -> bool:
    """Whether inputs are the fitted ones, but perhaps for the size of their maps; sites say whether that can be."""

    def fits(shape: tuple[int, ...], known: tuple[int, ...]) -> bool:
        return shape == known or (len(shape) == len(known) > 1 and shape[0] == known[0])

    return shapes.keys() == fitted.keys() and all(fits(shape, fitted[name]) for name, shape in shapes.items())


def _listed(shapes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(" × ".join(map(str, shape)) for shape in shapes.values()) or "nothing that is an image"
