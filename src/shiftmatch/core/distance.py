"""How far apart two sets of features are, by their moments."""

import torch

from shiftmatch.core.linalg import EigenvalueFloor, sym_power
from shiftmatch.core.moments import Moments

EXACT = EigenvalueFloor(rtol=0.0)
"""Square roots stay finite without a floor."""


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
