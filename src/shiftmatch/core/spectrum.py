"""Structures whose map is one gain and one offset per coefficient: the channels' moments, and their spectra."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import ClassVar, NamedTuple, TypeAlias, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from shiftmatch.core import kernels
from shiftmatch.core.basis import BASES, Coefficients, multiply_into
from shiftmatch.core.moments import (
    BatchMoments,
    Moments,
    abs_square,
    affinely,
    check_batch,
    check_finite,
    constant,
    merge,
    shrinkage_for,
    to_float64,
)
from shiftmatch.core.views import Target, View, chunks, compute_dtype, measure_views
from shiftmatch.errors import InputError
from shiftmatch.shapes import Count, Features, Size

MEAN_PRIOR_RATIO = 4
"""In the means of frequencies the training data counts for 4 times `Prior.shape`: a batch says little about them."""

_RESIZING = {1: "linear", 2: "bilinear", 3: "trilinear"}


class Prior(NamedTuple):
    """How many images the training statistics count for: in the channels' moments, and in the shape of the spectrum."""

    moments: float | int
    shape: float | int


class GainAndOffset(NamedTuple):
    """The map of a batch, coefficient by coefficient: z' = gain · z + offset."""

    gain: Float[Tensor, "c f"]
    offset: Tensor  # c f


ChannelAffine: TypeAlias = tuple[Tensor, Tensor]
"""Scale and shift of every channel, (c 1) each: what a BatchNorm in evaluation mode does."""


@final
@dataclass(frozen=True)
class ChannelMoments:
    """Mean and variance per channel: test-time batchnorm for any network.

    >>> features = torch.randn(500, 2, 8, 8)
    >>> moments = ChannelMoments()
    >>> target = moments.target(moments.measure(features), (8, 8))
    >>> torch.allclose(moments.transport(3 * features + 1, target, Prior(0, 0), 500), features, atol=1e-3)
    True
    """

    prior: ClassVar[Prior] = Prior(0.0, 0.0)

    def measure(self, x: Features) -> tuple[Moments, ...]:
        """Moments of every channel over images and space."""
        return measure_views([View(group=(1,))], x)

    def target(self, train: Sequence[Moments], space: Sequence[int]) -> dict[str, Tensor]:
        """Mean and variance of every channel in training."""
        return {"mean": train[0].mean[:, 0], "variance": train[0].covariance[:, 0]}

    def transport(self, x: Features, target: Target, prior: Prior, images: Size) -> Features:
        """X' = √(v°/v) (x − m) + m° in every channel."""
        return _transport(self, x, target, prior, images)

    def coefficients(self, x: Features, target: Target) -> Coefficients:
        """The features themselves."""
        return x.to(compute_dtype(x))

    def summarise(self, z: Coefficients, images: Count) -> BatchMoments:
        """Mean and variance over images and space, without gradients."""
        axes = [axis for axis in range(z.ndim) if axis != 1]
        variance, mean = torch.var_mean(z.detach(), dim=axes, correction=0)
        return BatchMoments(mean[:, None], variance[:, None], images)

    def gain_and_offset(self, test: BatchMoments, target: Target, prior: Prior) -> GainAndOffset:
        """Gain = √(v°/v), offset = m° − gain · m, with m and v pulled toward the training data."""
        shrinkage = shrinkage_for(prior.moments, test.images)
        stays, gain, offset = _channel_map(test.mean, test.variance, target["mean"], target["variance"], shrinkage)
        return GainAndOffset(gain.masked_fill_(stays, 1.0), offset.masked_fill_(stays, 0.0))

    def features(self, z: Coefficients, target: Target, space: Sequence[int]) -> Features:
        """The coefficients themselves."""
        return z


@final
@dataclass(frozen=True)
class Spectrum:
    """Per channel, the mean and variance of every frequency: what a stationary corruption changes.

    With z = D_h x D_wᵀ, test moments m and v, training moments m° and v°, and ε = floor · mean of v°:

        z₁ = a z + b                                   moves the channel's mean and variance
        z' = √((v° + ε) / (v₁ + ε)) (z₁ − m₁) + m°     moves the shape of its spectrum

    The training data counts for `Prior.moments` images in the first step and for `Prior.shape` in the second: m and v
    are then those of a mixture of the batch and so many training images. Features without space have no shape: they
    are matched in mean and variance.

    Args:
        basis: "dct" (cosines, for real images) or "dft" (exact where images wrap around).
        floor: keeps frequencies without variance from being amplified; a part of the mean variance.

    >>> train = torch.randn(500, 2, 8, 8)
    >>> spectrum = Spectrum()
    >>> target = spectrum.target(spectrum.measure(train), (8, 8))
    >>> torch.allclose(spectrum.transport(train, target, Prior(0, 0), 500), train, atol=1e-4)
    True
    """

    basis: str = "dct"
    floor: float = 1e-4
    prior: ClassVar[Prior] = Prior(16.0, 300.0)

    def __post_init__(self) -> None:
        if self.basis not in BASES:
            raise InputError(f"The basis of a spectrum is one of {', '.join(BASES)}; got {self.basis!r}.")

    def measure(self, x: Features) -> tuple[Moments, ...]:
        """Moments of every coefficient over the images, summed in float64."""
        basis, space, x = BASES[self.basis], x.shape[2:], x.detach().to(compute_dtype(x))
        if self.basis == "dct" and kernels.serve(x):
            return self._moments(BatchMoments(*kernels.measure(x), len(x)))
        matrices, parts = [matrix.to(x) for matrix in basis.matrices(space)], list(chunks(x))
        if matrices:
            z, scratch = (torch.empty(parts[0].shape).to(x) for _ in range(2))
            wide = torch.float32 if x.device.type == "mps" else torch.float64
            found = _sum_up((_transform(part, matrices, z[: len(part)], scratch) for part in parts), scratch, wide)
        else:
            found = reduce(merge, (self.summarise(basis.forward(p, []) if space else p, len(p)) for p in parts))
        return self._moments(found)

    def _moments(self, found: BatchMoments) -> tuple[Moments]:
        """As moments are kept: coefficients are groups; the real and the imaginary part of a mean are two columns."""
        count, mean = int(found.images), found.mean
        columns = torch.view_as_real(mean).reshape(-1, 1, 2) if mean.is_complex() else mean.reshape(-1, 1, 1)
        measured = Moments(count, to_float64(columns), to_float64(found.variance).reshape(-1, 1, 1) * count)
        check_finite([measured])
        return (measured,)

    def target(self, train: Sequence[Moments], space: Sequence[int]) -> dict[str, Tensor]:
        """The training moments of coefficients and channels, and the matrices of the transform."""
        basis = BASES[self.basis]
        multiplicity = basis.multiplicity(space).flatten()
        weight = multiplicity / multiplicity.sum()
        columns, variance = train[0].mean, train[0].scatter.reshape(-1, len(weight)) / train[0].count
        mean = torch.view_as_complex(columns.contiguous()) if columns.shape[-1] == 2 else columns
        mean = mean.reshape(-1, len(weight))
        unit = torch.zeros_like(weight)
        unit[0] = multiplicity.sum().sqrt()
        of_means = torch.where(unit > 0, 0.0, weight)
        found = {"mean": mean, "variance": variance, "unit": unit}
        found |= {"weight": weight[:, None], "weight_of_means": of_means[:, None]}
        found["channel_mean"], found["channel_variance"] = _channel_moments(mean, variance, found)
        found["floor"] = self.floor * (variance @ found["weight"])
        found["raised"] = variance + found["floor"]
        return found | {f"matrix{i}": matrix for i, matrix in enumerate(basis.matrices(space))}

    def channel_moments(self, train: Sequence[Moments], space: Sequence[int]) -> tuple[Moments, ...]:
        """The moments of the channels, which follow from those of the spectrum (Parseval)."""
        target, count = self.target(train, space), train[0].count * prod(space)
        mean, variance = target["channel_mean"], target["channel_variance"]
        return (Moments(count, mean[..., None], (variance * count)[..., None]),)

    def transport(self, x: Features, target: Target, prior: Prior, images: Size) -> Features:
        """Move the spectrum of a batch to that of training."""
        watched = torch.compiler.is_compiling() or (torch.is_grad_enabled() and x.requires_grad)
        if watched or "matrix0" not in target:
            return _transport(self, x, target, prior, images)
        if kernels.serve(x, target["mean"]):
            return kernels.match(x, target, shrinkages_for(prior, images))  # type: ignore[arg-type]
        return transport_in_chunks(self, x, target, prior, images)

    def coefficients(self, x: Features, target: Target) -> Coefficients:
        """Features in the basis."""
        x = x.to(compute_dtype(x))
        return BASES[self.basis].forward(x, _matrices(target, x)) if x.ndim > 2 else x

    def summarise(self, z: Coefficients, images: Count) -> BatchMoments:
        """Mean and variance over the images, without gradients."""
        z = z.detach().flatten(2) if z.ndim > 2 else z.detach()[..., None]
        mean = z.mean(0)
        return BatchMoments(mean, abs_square(z - mean).mean(0), images)

    def gain_and_offset(self, test: BatchMoments, target: Target, prior: Prior) -> GainAndOffset:
        """Both steps as one gain and one offset per coefficient."""
        channel = _channel_moments(test.mean, test.variance, target)
        moments, shape, of_means = shrinkages_for(prior, test.images)
        stays, a, b = _channel_map(*channel, target["channel_mean"], target["channel_variance"], moments)
        away = torch.addcmul(-target["mean"], b, target["unit"])  # b − m°
        delta = torch.addcmul(away, a, test.mean)  # m₁ − m°
        mixed = torch.addcmul(target["floor"] + torch.finfo(a.dtype).tiny, a * a, test.variance)
        mixed = _mix(mixed, target["raised"], delta, shape)
        gain = torch.sqrt(target["raised"] / mixed)
        offset = torch.addcmul(target["mean"], gain, away - (1 - of_means) * delta)
        return GainAndOffset((gain * a).masked_fill_(stays, 1.0), offset.masked_fill_(stays, 0.0))

    def resized(self, train: Sequence[Moments], space: Sequence[int], to: Sequence[int]) -> tuple[Moments, ...]:
        """The moments for maps of another size: the mean image is resized, variances are interpolated by frequency.

        The variance at a frequency, in cycles per pixel, is the same on a larger map.
        """
        target, channels, mode = self.target(train, space), len(train[0].mean) // prod(space), _RESIZING[len(space)]
        if self.basis != "dct":
            raise InputError(f"Only spectra in the DCT basis can be resized; this one is {self.basis!r}.")

        def interpolated(x: Tensor) -> Tensor:
            return functional.interpolate(x.reshape(1, channels, *space), size=tuple(to), mode=mode)[0]

        image = BASES["dct"].inverse(
            target["mean"].reshape(1, channels, *space), _matrices(target, target["mean"]), space
        )
        mean = BASES["dct"].forward(interpolated(image)[None], BASES["dct"].matrices(to))[0]
        variance = interpolated(target["variance"])
        return (Moments(train[0].count, mean.reshape(-1, 1, 1), (variance * train[0].count).reshape(-1, 1, 1)),)

    def features(self, z: Coefficients, target: Target, space: Sequence[int]) -> Features:
        """Undo `coefficients`."""
        return BASES[self.basis].inverse(z, _matrices(target, z), space) if len(space) else z


Elementwise: TypeAlias = ChannelMoments | Spectrum
"""Structures whose map needs no eigendecomposition."""


def _transport(structure: Elementwise, x: Features, target: Target, prior: Prior, images: Size) -> Features:
    """Transform, measure, move, transform back."""
    z = structure.coefficients(x, target)
    test = structure.summarise(z, images)
    check_batch(test)
    affine = structure.gain_and_offset(test, target, prior)
    return structure.features(apply(z, affine), target, x.shape[2:]).to(x.dtype)


def transport_in_chunks(
    spectrum: Spectrum, x: Features, target: Target, prior: Prior, images: Size, *, before: ChannelAffine | None = None
) -> Features:
    """The same for a DCT that nobody differentiates or compiles, chunk by chunk in the memory of the result.

    With `before`, features are scaled and shifted first, and the result overwrites them: they are at least in single
    precision, and the numbers of each image lie together in memory.
    """
    if before is None:
        z = torch.empty(x.shape, dtype=compute_dtype(x), device=x.device)
    else:
        z = x.as_strided(x.shape, torch.empty(x.shape, device="meta").stride())
    matrices, parts, unit = _matrices(target, z), list(chunks(z)), target["unit"]
    pairs, scratch = list(zip(x.split([len(part) for part in parts]), parts, strict=True)), torch.empty_like(parts[0])

    def transformed() -> Iterator[Coefficients]:
        for features, part in pairs:  # coefficients may take the place of features, so these are copied first
            own = features if before is None else features.clone(memory_format=torch.contiguous_format)
            yield _transform(own, matrices, part, scratch)

    test = _sum_up(transformed(), scratch, z.dtype)._replace(images=images)
    check_batch(test)
    affine = spectrum.gain_and_offset(test if before is None else affinely(test, *before, unit), target, prior)
    affine = affine if before is None else after(affine, *before, unit)
    gain, offset = (tensor.reshape(x.shape[1:]).to(z.dtype) for tensor in affine)
    transposed = [matrix.mT for matrix in matrices]
    for features, part in pairs:
        own = scratch[: len(part)]
        moved = torch.addcmul(offset, gain, part, out=own if len(matrices) % 2 else part)
        multiply_into(part, moved, transposed, own)
        if before is not None and not x.is_contiguous():
            features.copy_(part.clone())
    if before is not None:
        return x
    return z if x.is_contiguous() and x.dtype == z.dtype else torch.empty_like(x).copy_(z)


def _transform(x: Features, matrices: Sequence[Tensor], out: Tensor, scratch: Tensor) -> Coefficients:
    multiply_into(out, x.to(out.dtype).contiguous(), matrices, scratch[: len(x)])
    return out


def _sum_up(parts: Iterable[Coefficients], scratch: Tensor, dtype: torch.dtype) -> BatchMoments:
    """Moments of real coefficients, from sums of deviations from the mean of the first part."""
    images, origin = 0, torch.empty(0)
    first = second = torch.zeros((), dtype=dtype, device=scratch.device)
    for z in parts:
        flat, deviations = z.flatten(2), scratch[: len(z)].flatten(2)
        origin = flat.mean(0) if images == 0 else origin
        torch.sub(flat, origin, out=deviations)
        if images:  # those of the first part add up to nothing
            first = first + deviations.sum(0).to(dtype)
        second = second + deviations.square_().sum(0).to(dtype)
        images += len(z)
    shift = first / images
    return BatchMoments(origin + shift, second / images - shift * shift, images)


def after(affine: GainAndOffset, scale: Tensor, shift: Tensor, unit: Tensor | float) -> GainAndOffset:
    """The map of x ↦ gain · (scale · x + shift) + offset."""
    gain, offset = affine
    return GainAndOffset((gain * scale).to(gain.dtype), (offset + gain * (shift * unit)).to(offset.dtype))


def apply(z: Coefficients, affine: GainAndOffset) -> Coefficients:
    """Z' = gain · z + offset in every coefficient."""
    shape = z.shape[1:] if affine.gain.shape[1] > 1 else (-1, *[1] * (z.ndim - 2))
    gain, offset = affine.gain.reshape(shape).to(z.real.dtype), affine.offset.reshape(shape).to(z.dtype)
    if z.is_complex():
        return gain * z + offset
    return torch.addcmul(offset, gain, z)


def shrinkages_for(prior: Prior, images: Count) -> tuple[float | Tensor, float | Tensor, float | Tensor]:
    """The weight of the training data in the channels' moments, in the variances of frequencies, and in their means."""
    moments, shape = prior
    return tuple(shrinkage_for(n, images) for n in (moments, shape, MEAN_PRIOR_RATIO * shape))  # type: ignore[return-value]


def _channel_moments(mean: Tensor, variance: Tensor, target: Target) -> tuple[Tensor, Tensor]:
    """Mean and variance of channels from those of their coefficients; the zero frequency counts for the mean alone."""
    level = mean[:, :1].real / target["unit"][0]
    within, of_means = target["weight"], target["weight_of_means"]
    return level, variance.to(within.dtype) @ within + abs_square(mean).to(within.dtype) @ of_means


def _channel_map(
    mean: Tensor, variance: Tensor, to_mean: Tensor, to_variance: Tensor, shrinkage: float | Tensor
) -> tuple[Bool[Tensor, "c 1"], Tensor, Tensor]:
    """Which channels are constant and stay as they are, and the a and b of x' = a x + b that move the others."""
    ours, theirs = constant(mean.square(), variance, to_variance), constant(to_mean.square(), to_variance, variance)
    delta = mean - to_mean
    a = torch.sqrt(to_variance / _mix(variance, to_variance, delta, shrinkage))
    return ours | theirs, a, to_mean - a * (to_mean + (1 - shrinkage) * delta)


def _mix(variance: Tensor, to_variance: Tensor, delta: Tensor, weight: float | Tensor) -> Tensor:
    """The variance of a mixture of the batch and the training data, which has that weight; means differ by delta."""
    if isinstance(weight, float) and weight in (0, 1):
        return to_variance if weight else variance
    mixed = torch.lerp(variance, to_variance, weight)
    between = weight * (1 - weight)
    if delta.is_complex():
        return mixed + between * abs_square(delta)
    return torch.addcmul(mixed, delta * between, delta)


def _matrices(target: Target, like: Tensor) -> list[Tensor]:
    return [target[f"matrix{i}"].to(like.dtype) for i in range(len(target)) if f"matrix{i}" in target]
