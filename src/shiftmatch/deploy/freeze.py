"""freeze: a matched network whose maps are fixed, so that one image costs hardly more than without matching."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from shiftmatch.core.basis import dct_matrix
from shiftmatch.core.covariance import ChannelMoments, Covariance, Spectrum
from shiftmatch.core.spectrum import GainAndOffset, apply, check_batch
from shiftmatch.errors import InputError
from shiftmatch.matching.inputs import Inputs
from shiftmatch.matching.instrument import counting_calls, instrument, needs_call_counts, submodule, without_sites
from shiftmatch.matching.match import MatchedModel
from shiftmatch.matching.matcher import PartMatcher, SiteMatcher
from shiftmatch.matching.site import Site

MAX_DENSE_SIZE = 64
"""Maps of at most so many positions are transformed by one matrix product; larger ones axis by axis."""


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
    inputs = robust._checked(Inputs.of(reference))
    plain = without_sites(robust.network)
    recorders = {matcher.site: _MapRecorder(matcher) for matcher in robust.sites if isinstance(matcher, SiteMatcher)}
    with torch.no_grad(), counting_calls():
        instrument(plain, recorders)(*inputs.args, **inputs.kwargs)
    return FrozenModel(plain, robust, {site: r.frozen for site, r in recorders.items() if r.frozen is not None})


class FrozenModel(nn.Module):
    """A network with fixed maps at its sites. It always runs in evaluation mode."""

    def __init__(self, plain: nn.Module, robust: MatchedModel, maps: dict[Site, "SiteMap"]) -> None:
        super().__init__()
        self.statistics = robust.statistics
        left = {site: found for site, found in maps.items() if not _fold(plain, site, found)}
        self.network = instrument(plain, left)
        self.maps = nn.ModuleList(left.values())
        self._counts_calls = needs_call_counts(left)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the network returns, its features moved by the fixed maps."""
        if not self._counts_calls or torch.compiler.is_compiling():
            return self.network(*args, **kwargs)
        with counting_calls():
            return self.network(*args, **kwargs)

    def train(self, mode: bool = True) -> "FrozenModel":
        """Stays in evaluation mode."""
        return self

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_") or "network" not in self._modules:
                raise
            return getattr(self._modules["network"], name)


class ChannelMap(nn.Module):
    """X' = gain · x + offset in every channel of features (b c *space)."""

    def __init__(self, gain: Tensor, offset: Tensor, ndim: int) -> None:
        super().__init__()
        shape = (-1, *[1] * (ndim - 2))
        self.register_buffer("gain", gain.reshape(shape))
        self.register_buffer("offset", offset.reshape(shape))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addcmul(self.offset, x, self.gain).to(x.dtype)  # type: ignore[arg-type]


class SpectralMap(nn.Module):
    """X' = D⁻¹ (gain · D x) + offset, with the offset of features rather than of coefficients."""

    def __init__(self, covariance: Spectrum, target: dict[str, Tensor], gain: Tensor, offset: Tensor) -> None:
        super().__init__()
        self.covariance = covariance
        for name, matrix in target.items():
            if name.startswith("matrix"):
                self.register_buffer(name, matrix)
        self.register_buffer("gain", gain)
        self.register_buffer("offset", offset)

    def forward(self, x: Tensor) -> Tensor:
        target: dict[str, Tensor] = self._buffers  # type: ignore[assignment]
        z = self.covariance.coefficients(x, target)
        moved = self.covariance.features(z * target["gain"], target, x.shape[2:])
        return (moved + target["offset"]).to(x.dtype)


class ImageMap(nn.Module):
    """The same for images in the DCT basis, D = rows ⊗ columns: small ones by one matrix, others axis by axis."""

    rows: Tensor
    columns: Tensor
    gain: Tensor
    offset: Tensor

    def __init__(self, rows: Tensor, columns: Tensor, gain: Tensor, offset: Tensor) -> None:
        super().__init__()
        self._small = gain[0].numel() <= MAX_DENSE_SIZE
        if self._small:
            rows, columns = torch.kron(rows, columns), torch.empty(0)
            gain, offset = gain.flatten(1), offset.flatten(1)
        for name, tensor in {"rows": rows, "columns": columns, "gain": gain, "offset": offset}.items():
            self.register_buffer(name, tensor)

    def forward(self, x: Tensor) -> Tensor:
        rows, columns, features = self.rows, self.columns, x.to(self.gain.dtype)
        if self._small:
            z = (features.flatten(2) @ rows.mT) * self.gain
            return (z @ rows + self.offset).reshape(x.shape).to(x.dtype)
        z = (rows @ (features @ columns.mT)) * self.gain
        return (rows.mT @ z @ columns + self.offset).to(x.dtype)


class SiteMap(nn.Module):
    """The fixed map of one site, part by part."""

    def __init__(self, site: Site, parts: Sequence[nn.Module]) -> None:
        super().__init__()
        self.site, self.parts = site, nn.ModuleList(parts)
        self._only = not site.layout.grid and site.layout.channel == 1

    def extra_repr(self) -> str:
        return self.site.name

    def forward(self, x: Tensor) -> Tensor:
        if tuple(x.shape[1:]) != self.site.shape:
            raise InputError(
                f"Site {self.site.name!r} has features of shape {tuple(x.shape[1:])}; it was frozen for "
                f"{self.site.shape}. Resize the images, or freeze for images of this size."
            )
        if self._only:
            moved: Tensor = self.parts[0](x)
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


def _frozen(matcher: PartMatcher, x: Tensor, images: int) -> tuple[nn.Module, Tensor]:
    """The map that a batch gets at one part of a site, and the batch moved by it."""
    covariance, target = matcher.covariance, matcher.target
    assert isinstance(covariance, ChannelMoments | Spectrum)
    z = covariance.coefficients(x, target)
    test = covariance.summarise(z, images)
    check_batch(test)
    found = covariance.gain_and_offset(test, target, matcher.prior)
    moved = covariance.features(apply(z, found), target, x.shape[2:]).to(x.dtype)
    return _map(covariance, dict(target), found, z.shape[1:], x.shape[2:]), moved


def _map(
    covariance: Covariance, target: dict[str, Tensor], found: GainAndOffset, shape: torch.Size, space: torch.Size
) -> nn.Module:
    """The map as a module, for coefficients (c *frequencies) of that shape and maps of that size."""
    gain, offset = found
    if isinstance(covariance, ChannelMoments) or not space:
        return ChannelMap(gain, offset, 2 + len(space))
    assert isinstance(covariance, Spectrum)
    gain, offset = gain.reshape(shape), offset.reshape(shape)
    shift = covariance.features(offset[None], target, space)[0]
    if covariance.basis == "dct" and len(space) == 2:
        rows, columns = (dct_matrix(side).to(gain) for side in gain.shape[1:])
        return ImageMap(rows, columns, gain, shift)
    return SpectralMap(covariance, target, gain, shift)


def _fold(plain: nn.Module, site: Site, found: SiteMap) -> bool:
    """Make one of a map and the layer whose output it moves, where that is exact."""
    part = found.parts[0]
    if site.is_input or site.function or site.calls > 1 or len(found.parts) > 1 or not site.module:
        return False
    layer = submodule(plain, site.module)
    if type(layer).forward not in _KNOWN_FORWARDS or layer._forward_hooks or "forward" in vars(layer):
        return False  # what a subclass or a hook does after the layer would move too
    if isinstance(part, ImageMap):
        return _absorb(plain, site, found, layer, part)
    if not isinstance(part, ChannelMap):
        return False
    gain, offset = part.gain.flatten(), part.offset.flatten()  # type: ignore[operator]
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


def _absorb(plain: nn.Module, site: Site, found: SiteMap, layer: nn.Module, part: ImageMap) -> bool:
    """Let the map of an image's spectrum do the work of the BatchNorm before it, in whose place it then is."""
    if not isinstance(layer, _BatchNorm) or layer.running_mean is None or layer.running_var is None:
        return False
    scale = torch.rsqrt(layer.running_var.double() + layer.eps) * (1 if layer.weight is None else layer.weight.detach())
    shift = (0 if layer.bias is None else layer.bias.detach()) - layer.running_mean.double() * scale
    scale, shift = (x.to(part.gain.dtype).reshape(-1, *[1] * (part.gain.ndim - 1)) for x in (scale, shift))
    constant = shift.expand_as(part.gain).reshape(1, *site.shape)
    part.offset = part(constant)[0].reshape(part.offset.shape)
    part.gain = part.gain * scale
    parent, _, name = site.module.rpartition(".")
    plain.get_submodule(parent)._modules[name] = found
    return True


_KNOWN_FORWARDS = {
    kind.forward
    for kind in (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
}


def _check(robust: MatchedModel) -> None:
    if not isinstance(robust, MatchedModel):
        raise InputError(f"freeze takes what shiftmatch.match returned; got a {type(robust).__name__}.")
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
