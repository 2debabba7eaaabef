"""Fingerprints: a few numbers of each image that corruptions change; groups of images that differ in them."""

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from shiftmatch.core.basis import DCT
from shiftmatch.core.moments import Moments, to_float64
from shiftmatch.core.views import compute_dtype
from shiftmatch.shapes import Features, Images

BANDS = 6
"""Bands of frequency, each half an octave wide; the first takes all frequencies below, the last all above."""

ENERGY_FLOOR = 1e-4
"""Added to energies, so that an empty band has a logarithm: about the rounding of pixels, in standardised inputs."""

MAX_CHANNELS = 16
"""Inputs with more channels have no fingerprint kept: its covariance would outgrow what it is for."""

BIMODAL, BY_CHANCE = 0.75, 1.13
"""Two groups are told apart where they explain more than this part of the variance, and more than 0.67 + 1.13 / √n.
The halves of a Gaussian explain 0.64; n images of one kind up to 0.64 + 1.05 / √n along the best of the directions."""

MIN_IMAGES, MIN_PART = 12, 20
"""A group has at least 12 images, and at least a twentieth of those that are divided."""

DEPTH, DIRECTIONS = 2, 3
"""How often a batch is divided, and along how many principal directions of each kind a division is looked for."""

RIDGE = 1e-2
"""Added to the training covariance of fingerprints, in units of their mean variance."""


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


def find_groups(x: Images, train: Moments) -> list[Int64[Tensor, "_"]]:
    """The indices of the images in each group of a batch; one group if its fingerprints are not clearly bimodal.

    >>> images = torch.randn(80, 1, 8, 8)
    >>> train = measure_fingerprint(images)
    >>> [len(group) for group in find_groups(images, train)]
    [80]
    >>> mixed = torch.cat([images[:40], images[40:] / 5])
    >>> [len(group) for group in find_groups(mixed, train)]
    [40, 40]
    """
    found, prints = [torch.arange(len(x))], to_float64(fingerprint(x), "cpu")
    if not prints.isfinite().all():
        return found
    for _ in range(DEPTH):
        found = [part for group in found for part in _divided(group, prints[group], train)]
    return sorted((group.sort().values for group in found), key=lambda group: int(group[0])) if len(x) else found


def _divided(group: Tensor, prints: Float[Tensor, "n d"], train: Moments) -> list[Tensor]:
    if len(group) < 2 * MIN_IMAGES:
        return [group]
    explained, upper = max((_two_parts(along) for along in _directions(prints, train)), key=lambda found: found[0])
    parts = [group[~upper], group[upper]]
    bimodal = explained > max(BIMODAL, 0.67 + BY_CHANCE / len(group) ** 0.5)
    return parts if bimodal and min(map(len, parts)) >= MIN_IMAGES else [group]


def _directions(prints: Float[Tensor, "n d"], train: Moments) -> list[Float[Tensor, "n"]]:
    """Fingerprints along their principal directions, as they are and relative to the covariance in training."""
    deviations = prints - prints.mean(0)
    covariance, known = deviations.mT @ deviations / len(prints), train.covariance
    scale = known.diagonal().mean().clamp_min(torch.finfo(known.dtype).tiny)
    values, vectors = torch.linalg.eigh(known + RIDGE * scale * torch.eye(len(known), dtype=known.dtype))
    white = vectors * values**-0.5
    principal = torch.linalg.eigh(covariance).eigenvectors[:, -DIRECTIONS:]
    relative = white @ torch.linalg.eigh(white.mT @ covariance @ white).eigenvectors[:, -DIRECTIONS:]
    return list((deviations @ torch.cat([principal, relative], 1)).mT)


def _two_parts(x: Float[Tensor, "n"]) -> tuple[float, Tensor]:
    """The best threshold (Otsu): the part of the variance that it explains, and which numbers are above it."""
    values, count = x.sort().values, len(x)
    below = torch.arange(1, count, dtype=x.dtype)
    sums = values.cumsum(0)
    gap = sums[:-1] / below - (sums[-1] - sums[:-1]) / (count - below)
    between = below / count * (1 - below / count) * gap.square()
    least = max(1, count // MIN_PART)
    between[:least], between[count - least - 1 :] = 0, 0
    cut = between.argmax()
    variance = values.var(correction=0).clamp_min(torch.finfo(x.dtype).tiny)
    return (between[cut] / variance).item(), x > (values[cut] + values[cut + 1]) / 2
