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
from shiftmatch.core.covariance import (
    ChannelCovariance,
    ChannelJoint,
    Covariance,
    Dense,
    Kronecker,
    SpatialFull,
    SpatialKronecker,
    ViewCovariance,
    register_covariance,
)
from shiftmatch.core.linalg import EigenvalueFloor, Regularisation
from shiftmatch.core.moments import Moments
from shiftmatch.core.spectrum import ChannelMoments, Spectrum
from shiftmatch.core.views import View
from shiftmatch.evaluation.scores import Scores
from shiftmatch.matching.average import average
from shiftmatch.matching.batchnorm import adapt_batchnorm
from shiftmatch.matching.diagnosis import Diagnosis, diagnose
from shiftmatch.matching.match import MatchedModel, Preset, fit, match, paper
from shiftmatch.matching.matched import load
from shiftmatch.matching.members import fit_members, load_members, match_members
from shiftmatch.matching.memory import StreamModel
from shiftmatch.matching.sites import Layout, Site, Sites, sites
from shiftmatch.matching.statistics import Statistics
from shiftmatch.matching.stream import AutoStreamModel, stream
from shiftmatch.matching.strength import AutoMatchedModel
from shiftmatch.samplers.posterior import Posterior
from shiftmatch.samplers.sampling import sample
from shiftmatch.utils.processes import share, start_processes

if TYPE_CHECKING:
    from shiftmatch import corruptions, data, report
    from shiftmatch.corruptions import corrupt
    from shiftmatch.demo import embedded
    from shiftmatch.deploy.classifier import Classifier
    from shiftmatch.deploy.export import export
    from shiftmatch.deploy.freeze import freeze
    from shiftmatch.deploy.step import StreamStep
    from shiftmatch.evaluation import methods, streams, suites
    from shiftmatch.evaluation.evaluate import evaluate

__version__ = "0.1.0"

__all__ = [
    "AutoMatchedModel",
    "AutoStreamModel",
    "ChannelCovariance",
    "ChannelJoint",
    "ChannelMoments",
    "Classifier",
    "Covariance",
    "Dense",
    "Diagnosis",
    "EigenvalueFloor",
    "Kronecker",
    "Layout",
    "MatchedModel",
    "Moments",
    "Posterior",
    "Preset",
    "Regularisation",
    "Scores",
    "Site",
    "Sites",
    "SpatialFull",
    "SpatialKronecker",
    "Spectrum",
    "Statistics",
    "StreamModel",
    "StreamStep",
    "View",
    "ViewCovariance",
    "adapt_batchnorm",
    "average",
    "corrupt",
    "corruptions",
    "data",
    "diagnose",
    "embedded",
    "errors",
    "evaluate",
    "export",
    "fit",
    "fit_members",
    "freeze",
    "load",
    "load_members",
    "match",
    "match_members",
    "methods",
    "metrics",
    "models",
    "paper",
    "register_covariance",
    "report",
    "sample",
    "samplers",
    "share",
    "sites",
    "start_processes",
    "stream",
    "streams",
    "suites",
]

_LAZY = {
    "Classifier": "shiftmatch.deploy.classifier:Classifier",
    "StreamStep": "shiftmatch.deploy.step:StreamStep",
    "corrupt": "shiftmatch.corruptions:corrupt",
    "corruptions": "shiftmatch.corruptions",
    "data": "shiftmatch.data",
    "embedded": "shiftmatch.demo.embedded",
    "evaluate": "shiftmatch.evaluation.evaluate:evaluate",
    "export": "shiftmatch.deploy.export:export",
    "freeze": "shiftmatch.deploy.freeze:freeze",
    "methods": "shiftmatch.evaluation.methods",
    "report": "shiftmatch.report",
    "streams": "shiftmatch.evaluation.streams",
    "suites": "shiftmatch.evaluation.suites",
}
"""Names whose modules need Pillow or matplotlib: imported when used, so that importing shiftmatch stays quick."""


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'shiftmatch' has no attribute {name!r}")
    return resolve_name(_LAZY[name])


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
