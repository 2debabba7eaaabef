"""freeze: a matched network whose maps are fixed, so that one image costs hardly more than without matching."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from shiftmatch.core.moments import check_batch
from shiftmatch.core.spectrum import ChannelMoments, GainAndOffset, Spectrum, after
from shiftmatch.errors import InputError
from shiftmatch.matching.inputs import Inputs
from shiftmatch.matching.instrument import counting_calls, instrument, needs_call_counts, submodule, without_sites
from shiftmatch.matching.maps import ChannelMap, ImageMap, SpectralMap, batchnorm_before, is_untouched, map_of
from shiftmatch.matching.match import MatchedModel
from shiftmatch.matching.matcher import PartTarget, SiteMatcher, without_autocast
from shiftmatch.matching.sites import Site
from shiftmatch.matching.twin import TwinModel
from shiftmatch.utils.parallel import restoring_grad_mode


@restoring_grad_mode()
def freeze(robust: MatchedModel, reference: object) -> "FrozenModel":
    """The network with the maps that a reference batch gets, fixed: no statistics at run time.

    Each site applies z' = gain · z + offset with the gain and offset that `robust` finds for the reference batch,
    such as two hundred recent images from the camera at hand. So single images can be predicted, each by itself.
    Maps of whole channels are folded into the BatchNorm, convolution or linear layer before them; spectra become
    two fixed transforms.

    Args:
        robust: what `match` returned, with Spectrum or ChannelMoments and BatchNorm in evaluation mode.
        reference: a batch as the network takes it; the more images, the better the maps.

    >>> import shiftmatch as sm
    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    >>> images = torch.randn(200, 3, 8, 8)
    >>> robust = sm.match(net, sm.fit(net, images))
    >>> frozen = sm.freeze(robust, 2 * images)
    >>> torch.allclose(frozen(2 * images), robust(2 * images), atol=1e-4)
    True
    >>> frozen(2 * images[:1]).shape
    torch.Size([1, 10])
    """
    _check(robust)
    inputs = robust.checked(Inputs.of(reference))
    plain = without_sites(robust.network)
    recorders = {matcher.site: _MapRecorder(matcher) for matcher in robust.sites if isinstance(matcher, SiteMatcher)}
    with torch.no_grad(), counting_calls():
        instrument(plain, recorders)(*inputs.args, **inputs.kwargs)
    return FrozenModel(plain, robust, {site: r.frozen for site, r in recorders.items() if r.frozen is not None})


class FrozenModel(TwinModel):
    """A network with fixed maps at its sites."""

    def __init__(self, plain: nn.Module, robust: MatchedModel, maps: dict[Site, "SiteMap"]) -> None:
        super().__init__()
        self.statistics = robust.statistics
        left = {site: found for site, found in maps.items() if not _fold(plain, site, found)}
        instead = [site for site, found in left.items() if _absorb(plain, site, found)]
        self.network = instrument(plain, {site: found.forward for site, found in left.items()}, instead=instead)
        self.maps = nn.ModuleList(left.values())
        self._counts_calls = needs_call_counts(left)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the network returns, its features moved by the fixed maps."""
        if not self._counts_calls:
            return self.network(*args, **kwargs)
        with counting_calls():
            return self.network(*args, **kwargs)


class SiteMap(nn.Module):
    """The fixed map of one site, part by part."""

    def __init__(self, site: Site, parts: Sequence[SpectralMap]) -> None:
        super().__init__()
        self.site, self.parts = site, nn.ModuleList(parts)
        self._only = (parts[0],) if not site.layout.grid and site.layout.channel == 1 else ()

    def extra_repr(self) -> str:
        return self.site.name

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1:] != self.site.shape:
            raise InputError(
                f"Site {self.site.name!r} has features of shape {tuple(x.shape[1:])}; it was frozen for "
                f"{self.site.shape}. Resize the images, or freeze for images of this size."
            )
        if torch.is_autocast_enabled(x.device.type):
            with without_autocast(x.device.type):
                return self.forward(x)
        for part in self._only:
            moved: Tensor = part.forward(x)
            return moved
        layout = self.site.layout
        return layout.join([part(features) for part, features in zip(self.parts, layout.split(x), strict=True)])


class _MapRecorder:
    """The operation at a site while the reference batch passes: it is matched, and the map kept."""

    def __init__(self, matcher: SiteMatcher) -> None:
        self.matcher = matcher
        self.frozen: SiteMap | None = None

    def __call__(self, x: Tensor) -> Tensor:
        layout, images = self.matcher.site.layout, x.shape[0] // self.matcher.site.per_image
        parts, outputs = [], []
        for matcher, features in zip(self.matcher.parts, layout.split(x), strict=True):
            part, output = _frozen(matcher, features, images)  # type: ignore[arg-type]
            parts.append(part)
            outputs.append(output)
        self.frozen = SiteMap(self.matcher.site, parts)
        return layout.join(outputs)


def _frozen(matcher: PartTarget, x: Tensor, images: int) -> tuple[SpectralMap, Tensor]:
    """The map that a batch gets at one part of a site, and the batch moved by it."""
    covariance, target = matcher.covariance, matcher.target
    assert isinstance(covariance, ChannelMoments | Spectrum)
    test = covariance.summarise(covariance.coefficients(x, target), images)
    check_batch(test)
    found = map_of(covariance, target, covariance.gain_and_offset(test, target, matcher.prior), x.shape[2:])
    return found, found(x)


def _absorb(plain: nn.Module, site: Site, found: SiteMap) -> bool:
    """Let the map of a spectrum do the work of the BatchNorm before it as well, in whose place it then is."""
    before, part = batchnorm_before(plain, site), found.parts[0]
    if before is None or not isinstance(part, ImageMap):
        return False
    flat = GainAndOffset(*(x.reshape(len(x), -1) for x in part.affine))
    unit = torch.zeros_like(flat.gain[0])
    unit[0] = len(unit) ** 0.5
    part.assign(after(flat, *before, unit))
    return True


def _fold(plain: nn.Module, site: Site, found: SiteMap) -> bool:
    """Make one of a map of channels and the layer whose output it moves, where that is exact."""
    part = found.parts[0]
    if site.is_input or site.function or site.calls > 1 or len(found.parts) > 1 or not site.module:
        return False
    layer = submodule(plain, site.module)
    if not isinstance(part, ChannelMap) or not is_untouched(layer) or "weight" not in layer._parameters:
        return False  # weights that are computed, as by spectral_norm, would be computed again
    gain, offset = part.gain.flatten(), part.offset.flatten()
    channels_last = isinstance(layer, nn.Linear) and site.layout.channel == len(site.shape)
    convolution = isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d) and site.layout.channel == 1
    if isinstance(layer, _BatchNorm) and layer.weight is not None and site.layout.channel == 1:
        scale = gain
    elif channels_last or convolution:
        scale = gain.reshape(-1, *[1] * (layer.weight.ndim - 1))  # type: ignore[operator]
    else:
        return False
    weight: Tensor = layer.weight  # type: ignore[assignment]
    bias: Tensor = torch.zeros_like(offset) if layer.bias is None else layer.bias  # type: ignore[assignment]
    layer.weight = nn.Parameter((weight.detach() * scale).to(weight.dtype), weight.requires_grad)
    layer.bias = nn.Parameter((bias.detach() * gain + offset).to(weight.dtype), weight.requires_grad)
    return True


def _check(robust: MatchedModel) -> None:
    if not isinstance(robust, MatchedModel):
        raise InputError(
            f"freeze takes what shiftmatch.match returned, with strength='full' or 'moments'; got a "
            f"{type(robust).__name__}."
        )
    if robust.statistics.batchnorm == "batch":
        raise InputError(
            "BatchNorm on the statistics of each batch cannot be frozen. Fit with batchnorm='eval', the default."
        )
    for entry in robust.statistics.values():
        if not isinstance(entry.covariance, ChannelMoments | Spectrum):
            raise InputError(
                f"{type(entry.covariance).__name__} at site {entry.site.name!r} cannot be frozen. Fit with "
                "covariance=shiftmatch.Spectrum() or shiftmatch.ChannelMoments()."
            )
