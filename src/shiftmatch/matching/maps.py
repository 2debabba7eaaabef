"""Fixed maps: what a stream applies between two measurements, and a frozen network always."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from shiftmatch.core import kernels
from shiftmatch.core.basis import dct_matrix
from shiftmatch.core.spectrum import ChannelAffine, ChannelMoments, GainAndOffset, Spectrum, apply
from shiftmatch.core.views import Target
from shiftmatch.matching.instrument import submodule
from shiftmatch.matching.sites import Site

MAX_DENSE_SIZE = 64
"""Maps of at most 64 positions are transformed by one matrix product; larger ones axis by axis."""


class SpectralMap(nn.Module):
    """X' = D⁻¹ (gain · D x + offset), with the transform of a structure and one gain and offset per coefficient."""

    gain: Tensor
    offset: Tensor

    def __init__(self, covariance: ChannelMoments | Spectrum, target: Target, affine: GainAndOffset) -> None:
        super().__init__()
        self.covariance = covariance
        for name, matrix in target.items():
            if name.startswith("matrix"):
                self.register_buffer(name, matrix)
        self.register_buffer("gain", affine.gain)
        self.register_buffer("offset", affine.offset)

    def assign(self, affine: GainAndOffset) -> None:
        """Replace the gain and the offset."""
        self.gain, self.offset = (new.reshape(old.shape) for new, old in zip(affine, self.affine, strict=True))

    @property
    def affine(self) -> GainAndOffset:
        """Gain and offset of coefficients, in the shape that they are applied in."""
        return GainAndOffset(self.gain, self.offset)

    def coefficients(self, x: Tensor) -> Tensor:
        """D x."""
        return self.covariance.coefficients(x, self._buffers)  # type: ignore[arg-type]

    def features(self, z: Tensor, like: Tensor) -> Tensor:
        """The features with coefficients gain · z + offset, in the shape and precision of others."""
        moved = self.covariance.features(apply(z, self.affine), self._buffers, like.shape[2:])  # type: ignore[arg-type]
        return moved.to(like.dtype)

    def forward(self, x: Tensor) -> Tensor:
        return self.features(self.coefficients(x), x)


class ChannelMap(SpectralMap):
    """X' = gain · x + offset in every channel of features (b c *space)."""

    def __init__(self, affine: GainAndOffset, space: Sequence[int]) -> None:
        shape = (-1, *[1] * len(space))
        super().__init__(ChannelMoments(), {}, GainAndOffset(*(part.reshape(shape) for part in affine)))

    def features(self, z: Tensor, like: Tensor) -> Tensor:
        """The features, moved."""
        return torch.addcmul(self.offset, z, self.gain).to(like.dtype)


class ImageMap(SpectralMap):
    """The map of images in the DCT basis, D = rows ⊗ columns: small ones by one matrix, others axis by axis."""

    def __init__(self, covariance: Spectrum, affine: GainAndOffset, space: Sequence[int]) -> None:
        h, w = space
        rows, columns = (dct_matrix(side).to(affine.gain) for side in space)
        self._dense = h * w <= MAX_DENSE_SIZE
        shape = (-1, h * w) if self._dense else (-1, h, w)
        super().__init__(covariance, {}, GainAndOffset(*(part.reshape(shape) for part in affine)))
        self.register_buffer("rows", torch.kron(rows, columns) if self._dense else rows)
        self.register_buffer("columns", columns)

    def coefficients(self, x: Tensor) -> Tensor:
        """D x, with space as one axis where it is small."""
        rows, columns = self._matrices()
        x = x.to(rows.dtype)
        images, channels, h, w = x.shape
        if self._dense:
            return torch.mm(x.reshape(-1, h * w), rows.mT).view(images, channels, -1)
        along_columns = torch.mm(x.reshape(-1, w), columns.mT).view(-1, h, w)
        return torch.bmm(rows.expand(images * channels, h, h), along_columns).view(images, channels, h, w)

    def features(self, z: Tensor, like: Tensor) -> Tensor:
        """D⁻¹ (gain · z + offset)."""
        (rows, columns), (images, channels, h, w) = self._matrices(), like.shape
        z = torch.addcmul(self._buffers["offset"], z, self._buffers["gain"])  # type: ignore[arg-type]
        if self._dense:
            return torch.mm(z.view(-1, h * w), rows).view(like.shape).to(like.dtype)
        moved = torch.mm(z.view(-1, w), columns).view(-1, h, w)
        return torch.bmm(rows.mT.expand(images * channels, h, h), moved).view(like.shape).to(like.dtype)

    def forward(self, x: Tensor) -> Tensor:
        gain, offset = self._buffers["gain"], self._buffers["offset"]
        if kernels.serve(x, gain, offset):  # type: ignore[arg-type]
            return kernels.move(x, gain, offset)  # type: ignore[arg-type]
        return self.features(self.coefficients(x), x)

    def with_coefficients(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The features moved, and the coefficients that they had."""
        gain, offset = self._buffers["gain"], self._buffers["offset"]
        if kernels.serve(x, gain, offset):  # type: ignore[arg-type]
            z = torch.empty_like(x)
            return kernels.move(x, gain, offset, z), z.flatten(2) if self._dense else z  # type: ignore[arg-type]
        z = self.coefficients(x)
        return self.features(z, x), z

    def _matrices(self) -> tuple[Tensor, Tensor]:
        return self._buffers["rows"], self._buffers["columns"]  # type: ignore[return-value]


def map_of(
    covariance: ChannelMoments | Spectrum, target: Target, affine: GainAndOffset, space: Sequence[int]
) -> SpectralMap:
    """The map with that gain and offset, for features whose maps have that size."""
    if isinstance(covariance, ChannelMoments) or not space:
        return ChannelMap(affine, space)
    if covariance.basis == "dct" and len(space) == 2:
        return ImageMap(covariance, affine, space)
    return SpectralMap(covariance, target, affine)


def batchnorm_before(network: nn.Module, site: Site) -> ChannelAffine | None:
    """Scale and shift of the BatchNorm whose output is the site, if it can be merged with the map of the site."""
    if site.is_input or site.function or site.calls > 1 or site.layout.grid or site.layout.channel != 1:
        return None
    layer = submodule(network, site.module)
    if not isinstance(layer, _BatchNorm) or layer.running_mean is None or layer.running_var is None:
        return None
    return channel_affine(layer) if is_untouched(layer) else None


def channel_affine(layer: _BatchNorm, dtype: torch.dtype = torch.float64) -> ChannelAffine:
    """Scale and shift of each channel by a BatchNorm in evaluation mode."""
    assert layer.running_mean is not None
    assert layer.running_var is not None
    scale = torch.rsqrt(layer.running_var.to(dtype) + layer.eps)
    scale = scale if layer.weight is None else scale * layer.weight.detach().to(dtype)
    shift = layer.running_mean.to(dtype) * scale
    shift = -shift if layer.bias is None else layer.bias.detach().to(dtype) - shift
    return scale[:, None], shift[:, None]


def is_untouched(layer: nn.Module) -> bool:
    """Whether a layer runs the forward pass of its class in PyTorch, without hooks after it."""
    return type(layer).forward in _KNOWN_FORWARDS and not layer._forward_hooks and "forward" not in vars(layer)


_KNOWN_FORWARDS = {
    kind.forward
    for kind in (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
}
