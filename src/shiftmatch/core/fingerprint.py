"""The fingerprint of one image: a few numbers that corruptions change, without a pass through any network."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from shiftmatch.core.basis import DCT
from shiftmatch.core.moments import Moments
from shiftmatch.core.views import compute_dtype
from shiftmatch.shapes import Features

BANDS = 6
"""Bands of frequency, each half an octave wide; the first takes all frequencies below, the last all above."""

ENERGY_FLOOR = 1e-4
"""Added to energies, so that an empty band has a logarithm: about the rounding of pixels, in standardised inputs."""

MAX_CHANNELS = 16
"""Inputs with more channels have no fingerprint kept: its covariance would outgrow what it is for."""


def fingerprint(images: Features) -> Float[Tensor, "b d"]:
    """Per channel, the log of the mean energy in each band of frequency; then the channels' means.

    Each image has its own: log(ε + mean over the band of z²) with z its cosine transform. Three channels give 21
    numbers. Features without space have means alone.

    >>> fingerprint(torch.randn(5, 3, 8, 8)).shape
    torch.Size([5, 21])
    """
    x, space = images.detach().to(compute_dtype(images)), images.shape[2:]
    if not space:
        return x
    basis = DCT()
    z = basis.forward(x, [matrix.to(x.device, x.dtype) for matrix in basis.matrices(space)]).flatten(2)
    weights = band_masks(tuple(space)).to(z.device, z.dtype)
    energy = z.square() @ (weights / weights.sum(-1, keepdim=True).clamp_min(1)).mT
    return torch.cat([(energy + ENERGY_FLOOR).log().flatten(1), z[..., 0] / z.shape[-1] ** 0.5], dim=-1)


def band_masks(space: tuple[int, ...], bands: int = BANDS) -> Bool[Tensor, "band frequency"]:
    """Which frequencies of the cosine transform are in which band; the zero frequency is in none.

    >>> band_masks((8, 8)).sum(-1)
    tensor([ 2,  1,  4,  7, 15, 34])
    """
    radius = radius_of(space)
    edges = 2 ** (0.5 * (torch.arange(1, bands) - bands))
    return (torch.bucketize(radius, edges, right=True) == torch.arange(bands)[:, None]) & (radius > 0)


def radius_of(space: tuple[int, ...]) -> Float[Tensor, "frequency"]:
    """How fine every frequency is: 1 along an axis is half a cycle per pixel."""
    grids = torch.meshgrid(*(torch.arange(side) / side for side in space), indexing="ij")
    return torch.stack([grid.flatten() for grid in grids]).square().sum(0).sqrt()


def measure_fingerprint(images: Features) -> Moments | None:
    """Mean and covariance of the fingerprints of images; nothing for inputs that are not images."""
    if images.ndim < 3 or images.shape[1] > MAX_CHANNELS:
        return None
    return Moments.of(fingerprint(images).mT[:, None]).to("cpu")
