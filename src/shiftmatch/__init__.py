"""Make trained networks robust to corrupted inputs at test time, without gradients or retraining.

>>> import torch, shiftmatch as sm
>>> net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(288, 10))
>>> statistics = sm.fit(net, torch.randn(200, 3, 8, 8))
>>> robust = sm.match(net, statistics)
>>> robust(torch.randn(100, 3, 8, 8)).shape
torch.Size([100, 10])
"""

from pkgutil import resolve_name
from typing import TYPE_CHECKING

from shiftmatch import errors, metrics, models, samplers
from shiftmatch.averaging import average
from shiftmatch.benchmark.scores import Scores
from shiftmatch.core.covariance import (
    ChannelCovariance,
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
from shiftmatch.members import MemberStatistics, fit_members, match_members
from shiftmatch.samplers.posterior import Posterior
from shiftmatch.samplers.sampling import sample
from shiftmatch.sites.batchnorm import adapt_batchnorm
from shiftmatch.sites.matching import MatchedModel, fit, match
from shiftmatch.sites.presets import Preset, paper
from shiftmatch.sites.selection import sites
from shiftmatch.sites.site import Layout, Site, Sites
from shiftmatch.sites.statistics import Statistics

if TYPE_CHECKING:
    from shiftmatch import corruptions, data, embedded, report
    from shiftmatch.benchmark import methods, suites
    from shiftmatch.benchmark.evaluation import evaluate
    from shiftmatch.benchmark.streams import stream
    from shiftmatch.corruptions import corrupt

__version__ = "0.1.0"

__all__ = [
    "ChannelCovariance",
    "ChannelJoint",
    "ChannelMoments",
    "Covariance",
    "Dense",
    "Kronecker",
    "Layout",
    "MatchedModel",
    "MemberStatistics",
    "Moments",
    "Posterior",
    "Preset",
    "Ridge",
    "Scores",
    "Site",
    "Sites",
    "SpatialFull",
    "SpatialKronecker",
    "Statistics",
    "Tolerance",
    "adapt_batchnorm",
    "average",
    "corrupt",
    "corruptions",
    "data",
    "embedded",
    "errors",
    "evaluate",
    "fit",
    "fit_members",
    "match",
    "match_members",
    "methods",
    "metrics",
    "models",
    "paper",
    "report",
    "sample",
    "samplers",
    "sites",
    "stream",
    "suites",
]

_WHEN_USED = {
    "corrupt": "shiftmatch.corruptions:corrupt",
    "corruptions": "shiftmatch.corruptions",
    "data": "shiftmatch.data",
    "embedded": "shiftmatch.embedded",
    "evaluate": "shiftmatch.benchmark.evaluation:evaluate",
    "methods": "shiftmatch.benchmark.methods",
    "report": "shiftmatch.report",
    "stream": "shiftmatch.benchmark.streams:stream",
    "suites": "shiftmatch.benchmark.suites",
}
"""Names whose modules need scipy, Pillow or Jinja: imported when used, so that importing shiftmatch stays quick."""


def __getattr__(name: str) -> object:
    if name not in _WHEN_USED:
        raise AttributeError(f"module 'shiftmatch' has no attribute {name!r}")
    return resolve_name(_WHEN_USED[name])
