"""The map of a site, fixed: what a network applies between two measurements, in as few operations as it takes."""

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
"""Maps of at most so many positions are transformed by one matrix product; larger ones axis by axis."""


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
        """Apply another gain and offset from now on."""
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
    """The map of images in the DCT basis, D = rows ⊗ columns: small ones by one matrix, others axis by axis.

    For one image every operation counts, so what the products need is prepared once for batches of a size.
    """

    def __init__(self, covariance: Spectrum, affine: GainAndOffset, space: Sequence[int]) -> None:
        h, w = space
        rows, columns = (dct_matrix(side).to(affine.gain) for side in space)
        self._dense, self._side = h * w <= MAX_DENSE_SIZE, h
        shape = (-1, h * w) if self._dense else (-1, h, w)
        super().__init__(covariance, {}, GainAndOffset(*(part.reshape(shape) for part in affine)))
        self.register_buffer("rows", torch.kron(rows, columns) if self._dense else rows)
        self.register_buffer("columns", columns)
        self._prepared: tuple[Tensor, int | torch.SymInt, tuple[Tensor, ...]] | None = None

    def coefficients(self, x: Tensor) -> Tensor:
        """D x, with space as one axis where it is small."""
        x = x.to(self._buffers["gain"].dtype)  # type: ignore[union-attr]
        images, channels, h, w = x.shape
        rows, _, columns, _ = self._matrices(images * channels)
        if self._dense:
            return torch.mm(x.reshape(-1, h * w), columns).view(images, channels, -1)
        along_columns = torch.mm(x.reshape(-1, w), columns).view(-1, h, w)
        return torch.bmm(rows, along_columns).view(images, channels, h, w)

    def features(self, z: Tensor, like: Tensor) -> Tensor:
        """D⁻¹ (gain · z + offset)."""
        gain, offset, shape = self._buffers["gain"], self._buffers["offset"], like.shape
        z = torch.addcmul(offset, z, gain)  # type: ignore[arg-type]
        _, rows, _, columns = self._matrices(shape[0] * shape[1])
        moved = torch.mm(z.view(-1, z.shape[-1]), columns)
        if not self._dense:
            moved = torch.bmm(rows, moved.view(-1, shape[2], shape[3]))
        return moved.view(shape).to(like.dtype)

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

    def _matrices(self, maps: int | torch.SymInt) -> tuple[Tensor, ...]:
        """Rows, to there and back, for each of so many maps; then columns, there and back."""
        rows, columns, h = self._buffers["rows"], self._buffers["columns"], self._side
        kept = self._prepared
        if kept is not None and kept[0] is rows and kept[1] == maps:
            return kept[2]
        assert rows is not None
        assert columns is not None
        if self._dense:
            found = (rows, rows, rows.mT, rows)
        else:
            found = (rows.expand(maps, h, h), rows.mT.expand(maps, h, h), columns.mT, columns)
        if not torch.compiler.is_compiling():
            self._prepared = rows, maps, found
        return found


def map_of(
    covariance: ChannelMoments | Spectrum, target: Target, affine: GainAndOffset, space: Sequence[int]
) -> SpectralMap:
    """The map with that gain and offset, for features whose maps have that size."""
    if isinstance(covariance, ChannelMoments) or not space:
        return ChannelMap(affine, space)
    if covariance.basis == "dct" and len(space) == 2:
        return ImageMap(covariance, affine, space)
    return SpectralMap(covariance, target, affine)


def batchnorm_at(network: nn.Module, site: Site) -> _BatchNorm | None:
    """The BatchNorm whose output is the site, if the map of the site can do its work as well."""
    if site.is_input or site.function or site.calls > 1 or site.layout.grid or site.layout.channel != 1:
        return None
    layer = submodule(network, site.module)
    if not isinstance(layer, _BatchNorm) or layer.running_mean is None or layer.running_var is None:
        return None
    return layer if is_untouched(layer) else None


def channel_affine(layer: _BatchNorm, dtype: torch.dtype = torch.float64) -> ChannelAffine:
    """What a BatchNorm in evaluation mode does to each channel."""
    assert layer.running_mean is not None
    assert layer.running_var is not None
    scale = torch.rsqrt(layer.running_var.to(dtype) + layer.eps)
    scale = scale if layer.weight is None else scale * layer.weight.detach().to(dtype)
    shift = layer.running_mean.to(dtype) * scale
    shift = -shift if layer.bias is None else layer.bias.detach().to(dtype) - shift
    return scale[:, None], shift[:, None]


def batchnorm_before(network: nn.Module, site: Site) -> ChannelAffine | None:
    """What the BatchNorm whose output is the site does, if the map of the site can do it as well."""
    layer = batchnorm_at(network, site)
    return None if layer is None else channel_affine(layer)


def is_untouched(layer: nn.Module) -> bool:
    """Whether a layer does what its class in PyTorch does, and nothing after it."""
    return type(layer).forward in _KNOWN_FORWARDS and not layer._forward_hooks and "forward" not in vars(layer)


_KNOWN_FORWARDS = {
    kind.forward
    for kind in (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
}
