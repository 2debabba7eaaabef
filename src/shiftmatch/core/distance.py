"""How far apart two sets of features are, and how far sampling error would take them."""

from math import hypot, inf
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from shiftmatch.core.basis import DCT
from shiftmatch.core.fingerprint import band_masks, radius_of
from shiftmatch.core.linalg import EigenvalueFloor, sym_power
from shiftmatch.core.moments import NOT_FINITE, Moments, to_float64
from shiftmatch.core.views import chunks, compute_dtype
from shiftmatch.errors import NonFiniteError
from shiftmatch.shapes import Features

EXACT = EigenvalueFloor(rtol=0.0)
"""No floor: square roots stay finite without one."""

ENERGY_RTOL = 1e-4
"""Added to energies, relative to those of training, so that bands without any have a logarithm."""

LIMIT_SCORE = 4.5
"""Up to this standard score sampling error explains a distance; the distances of all sites are tested at once."""

NEGLIGIBLE = 1e-6
"""The limit where images do not vary at all."""


def shift(test: Moments, train: Moments) -> float:
    """W₂(test, train) / √tr Σ_train: how far features have moved, in units of how far they spread in training.

    W₂² = |μ − μ'|² + tr(Σ + Σ' − 2 (Σ'^{1/2} Σ Σ'^{1/2})^{1/2}) is the Wasserstein distance of two Gaussians; it and
    tr Σ_train are added up over groups, so that constant groups do no harm.

    >>> train = Moments.of(torch.tensor([[[-1.0, 1.0]]]))
    >>> shift(train, train), shift(Moments.of(torch.tensor([[[-1.0, 1.0]]]) + 3), train)
    (0.0, 3.0)
    """
    root = sym_power(train.covariance, 0.5, EXACT)
    cross = sym_power(root @ test.covariance @ root, 0.5, EXACT)
    spread = _trace(train)
    moved = (test.mean - train.mean).square().sum() / train.mean.shape[-1]
    squared = moved + _trace(test) + spread - 2 * cross.diagonal(dim1=-2, dim2=-1).sum()
    return float((squared.clamp_min(0) / spread).sqrt())


def _trace(moments: Moments) -> torch.Tensor:
    return moments.covariance.diagonal(dim1=-2, dim2=-1).sum()


class Distance(NamedTuple):
    """The distance of a batch from training, the limit of sampling error, and the standard score of the distance."""

    value: float
    limit: float
    score: float

    @property
    def inside(self) -> bool:
        """Whether sampling error explains it."""
        return self.value <= self.limit


class SiteShift(NamedTuple):
    """How features of a batch differ from those of training, by channel and band of frequency.

    `level` is in standard deviations of the channel, `gain` the logarithm of a ratio of energies.
    """

    mean: Distance
    variance: Distance
    spectrum: Distance
    level: Float[Tensor, "c"]
    gain: Float[Tensor, "c k"]
    error: Float[Tensor, "k"]  # the standard error of the gain's mean over channels
    frequency: Float[Tensor, "k"]  # the middle of each band, in cycles per pixel
    unusual: Float[Tensor, "n what"]  # of every image: how far its levels and, where there is space, its energies are

    @property
    def size(self) -> float:
        """All three distances as one."""
        return hypot(self.mean.value, self.variance.value, self.spectrum.value)


def site_shift(x: Features, train: Moments, images: int) -> SiteShift:
    """How far a batch of so many images is from training, given the training moments of the spectrum.

    Each image has a level and energies of its own; the training moments give their means. Their variance is estimated
    from the images of the batch, because positions within an image are not independent.

    >>> noise = torch.randn(600, 2, 8, 8)
    >>> z = DCT().forward(noise[:500], [m.float() for m in DCT().matrices((8, 8))]).flatten(1).double().mT
    >>> found = site_shift(2 * noise[500:], Moments.of(z[:, None, None]), 100)
    >>> found.mean.inside, found.variance.inside, found.spectrum.inside
    (True, False, True)
    """
    masks = band_masks(tuple(x.shape[2:])) if x.ndim > 2 else torch.zeros(0, 1)
    masks = masks[masks.any(-1)].to(x.device, torch.float64)
    channels, error_scale = x.shape[1], 1 / images + 1 / train.count
    usual_mean, usual = (m.reshape(channels, -1).to(x.device) for m in (train.mean, train.scatter / train.count))
    frequencies, tiny = usual.shape[-1], torch.finfo(usual.dtype).tiny
    level, energy = _per_image(x, usual_mean, masks, images)
    spread = (usual.mean(-1) + usual_mean[:, 1:].square().sum(-1) / frequencies).clamp_min(tiny)
    unusual = [_root_mean_square(level / (usual[:, 0] + ENERGY_RTOL * usual[:, 0].mean() + tiny).sqrt())]
    level = level / (frequencies * spread).sqrt()
    if not len(masks):  # one position: its variance over the images is all there is
        energy, masks = (level - level.mean(0)).square()[..., None] * spread[:, None], masks.new_ones(1, 1)
    size = masks.sum(-1)
    usual = (usual @ masks.mT) / size
    floor = ENERGY_RTOL * (usual.mean(-1, keepdim=True) + usual.mean()) + tiny
    share = size / size.sum()
    gain, varied = _log_ratio(energy, usual, floor)
    if len(size) > 1:
        unusual.append(_root_mean_square(((energy + floor) / (usual + floor)).log().flatten(1)))
    total, varied_total = _log_ratio(energy @ share[:, None], usual @ share[:, None], floor)
    error = (varied.mean(1) - varied.mean((0, 1))).square().mean(0).mul(error_scale).sqrt()
    return SiteShift(
        _distance(level.mean(0), level, error_scale),
        _distance(total.flatten(), varied_total.flatten(1), error_scale),
        _distance((gain - total).flatten(), (varied - varied_total).flatten(1), error_scale),
        level.mean(0),
        gain,
        error,
        masks @ radius_of(tuple(x.shape[2:])).to(masks) / size / 2 if x.ndim > 2 else size * 0,
        torch.stack(unusual, dim=-1).clamp_min(NEGLIGIBLE),
    )


def channel_distances(
    mean: Float[Tensor, "n c"], variance: Float[Tensor, "n c"], train: Moments, images: int
) -> tuple[Distance, Distance]:
    """How far channels are from training in mean and in variance, from the moments of each image over space.

    `train` are the moments of the channels, from so many images. Without a basis: cheap beside the pass of a network.

    >>> noise = torch.randn(300, 2, 8, 8)
    >>> train = Moments.of(noise[:200].movedim(1, 0).reshape(2, 1, 1, -1))
    >>> near, far = noise[200:], 2 * noise[200:]
    >>> [d.inside for x in (near, far) for d in channel_distances(x.mean((2, 3)), x.var((2, 3)), train, 200)]
    [True, True, True, False]
    """
    centre, usual = train.mean[:, 0, 0], train.covariance[:, 0, 0]
    floor = ENERGY_RTOL * usual.mean() + torch.finfo(usual.dtype).tiny
    away, error_scale = to_float64(mean, "cpu") - centre, 1 / len(mean) + 1 / images
    level, energy = away / (usual + floor).sqrt(), (to_float64(variance, "cpu") + away.square())[..., None]
    gain, varied = _log_ratio(energy, usual[:, None], floor)
    return _distance(level.mean(0), level, error_scale), _distance(gain.flatten(), varied.flatten(1), error_scale)


def _per_image(
    x: Features, usual_mean: Tensor, masks: Tensor, images: int
) -> tuple[Float[Tensor, "images c"], Float[Tensor, "images c k"]]:
    """The level of every image and its mean energy in every band, about the training means, in double precision."""
    basis, space = DCT(), x.shape[2:]
    matrices = [matrix.to(x.device, compute_dtype(x)) for matrix in basis.matrices(space)]
    origin, weights = usual_mean.to(compute_dtype(x)), (masks / masks.sum(-1, keepdim=True)).to(compute_dtype(x)).mT
    levels, energies = [], []
    for part in chunks(x.detach()):
        z = basis.forward(part.to(compute_dtype(x)), matrices).flatten(2) if space else part[..., None]
        z = z - origin
        levels.append(z[..., 0].double())
        energies.append((z.square() @ weights).double())
    level, energy = torch.cat(levels), torch.cat(energies)
    if not level.isfinite().all():
        raise NonFiniteError(NOT_FINITE)
    if images != len(level):  # windows of one image
        level, energy = (e.unflatten(0, (images, -1)).mean(1) for e in (level, energy))
    return level, energy


def _root_mean_square(x: Float[Tensor, "n d"]) -> Float[Tensor, "n"]:
    return x.square().mean(-1).sqrt()


def _log_ratio(energy: Tensor, usual: Tensor, floor: Tensor) -> tuple[Tensor, Tensor]:
    """The logarithm of mean energy over that of training, and what each image contributes to its deviation."""
    found = energy.mean(0) + floor
    return (found / (usual + floor)).log(), (energy + floor) / found


def _distance(moved: Float[Tensor, "d"], varied: Float[Tensor, "n d"], error_scale: float) -> Distance:
    """√(|δ|² / d), and the limit up to which sampling error explains it.

    δ is a mean over images, which vary by C; without a shift |δ|² has mean tr C and variance 2 tr C², and is nearly a
    multiple of χ² (Satterthwaite), whose cube root is nearly Gaussian (Wilson and Hilferty).
    """
    deviations = (varied - varied.mean(0)) * (error_scale / max(len(varied) - 1, 1)) ** 0.5
    expected, gram = deviations.square().sum(), deviations @ deviations.mT
    squares = gram.square().sum()
    value = float(moved.square().mean().sqrt())
    if not squares > 0:
        return Distance(value, NEGLIGIBLE, inf if value > NEGLIGIBLE else 0.0)
    width = (2 * squares / (9 * expected.square())).sqrt()  # 2 / (9 degrees of freedom), its root
    score = ((moved.square().sum() / expected) ** (1 / 3) - (1 - width.square())) / width
    limit = expected * (1 - width.square() + LIMIT_SCORE * width) ** 3
    return Distance(value, float((limit / len(moved)).sqrt()), float(score))
