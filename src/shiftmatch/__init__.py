"""Make trained networks robust to corrupted inputs at test time, without gradients or retraining.

>>> import torch, shiftmatch as sm
>>> net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(288, 10))
>>> statistics = sm.fit(net, torch.randn(64, 3, 8, 8))
>>> robust = sm.match(net, statistics)
>>> robust(torch.randn(32, 3, 8, 8)).shape
torch.Size([32, 10])
"""

from shiftmatch import errors, models
from shiftmatch.core.covariance import (
    ChannelJoint,
    ChannelMoments,
    Covariance,
    Dense,
    Kronecker,
    SpatialFull,
    SpatialKronecker,
    Tolerance,
)
from shiftmatch.core.linalg import Ridge
from shiftmatch.core.moments import Moments
from shiftmatch.sites.batchnorm import adapt_batchnorm
from shiftmatch.sites.matching import MatchedModel, fit, match
from shiftmatch.sites.presets import Preset, paper
from shiftmatch.sites.selection import sites
from shiftmatch.sites.site import Layout, Site, Sites
from shiftmatch.sites.statistics import Statistics

__version__ = "0.1.0"

__all__ = [
    "ChannelJoint",
    "ChannelMoments",
    "Covariance",
    "Dense",
    "Kronecker",
    "Layout",
    "MatchedModel",
    "Moments",
    "Preset",
    "Ridge",
    "Site",
    "Sites",
    "SpatialFull",
    "SpatialKronecker",
    "Statistics",
    "Tolerance",
    "adapt_batchnorm",
    "errors",
    "fit",
    "match",
    "models",
    "paper",
    "sites",
]
