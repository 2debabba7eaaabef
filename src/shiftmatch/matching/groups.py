"""Mixed batches: images that look different, told apart by their fingerprints, before any network sees them."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from shiftmatch.core.distance import fingerprint
from shiftmatch.core.moments import Moments, to_float64
from shiftmatch.shapes import Images

BIMODAL, BY_CHANCE = 0.75, 1.13
"""Two groups are told apart where they explain more than this part of the variance, and more than 0.67 + 1.13 / √n.
The halves of a Gaussian explain 0.64; n images of one kind up to 0.64 + 1.05 / √n along the best of the directions."""

MIN_IMAGES, MIN_PART = 12, 20
"""A group has so many images at least, and one in so many of those that are divided."""

DEPTH, DIRECTIONS = 2, 3
"""How often groups are divided again, and along how many directions of either kind groups are looked for."""

RIDGE = 1e-2
"""Added to the training covariance of fingerprints, in units of their mean variance."""


def find_groups(x: Images, train: Moments) -> list[Int64[Tensor, "_"]]:
    """The places of the images in each group of a batch; one group if its fingerprints are not clearly bimodal.

    >>> from shiftmatch.core.distance import measure_fingerprint
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
    """Fingerprints along the principal directions, and along those that vary most beside the training images."""
    deviations = prints - prints.mean(0)
    covariance, known = deviations.mT @ deviations / len(prints), train.covariance
    scale = known.diagonal().mean().clamp_min(torch.finfo(known.dtype).tiny)
    values, vectors = torch.linalg.eigh(known + RIDGE * scale * torch.eye(len(known), dtype=known.dtype))
    white = vectors * values**-0.5
    principal = torch.linalg.eigh(covariance).eigenvectors[:, -DIRECTIONS:]
    relative = white @ torch.linalg.eigh(white.mT @ covariance @ white).eigenvectors[:, -DIRECTIONS:]
    return list((deviations @ torch.cat([principal, relative], 1)).mT)


def _two_parts(x: Float[Tensor, "n"]) -> tuple[float, Tensor]:
    """The best cut of numbers in two (Otsu): the part of their variance that it explains, and who is above it."""
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
