"""Ways to make networks robust, by name, so that they can be compared in one run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, final

import torch
from torch import Tensor, nn

from shiftmatch.core.covariance import ChannelCovariance, ChannelJoint, Kronecker, SpatialFull, SpatialKronecker
from shiftmatch.core.spectrum import ChannelMoments, Spectrum
from shiftmatch.errors import InputError
from shiftmatch.evaluation.online import (
    EpisodicAverage,
    OnlineModel,
    Setup,
    check_batchnorm,
    running_batchnorm,
    scales_and_shifts,
    tent,
)
from shiftmatch.matching.average import Average, average
from shiftmatch.matching.batchnorm import adapt_batchnorm, has_source_statistics
from shiftmatch.matching.match import fit, paper
from shiftmatch.matching.members import fit_members, load_members, match_members
from shiftmatch.matching.sites import Place, sites
from shiftmatch.matching.statistics import Statistics
from shiftmatch.matching.twin import twin_of
from shiftmatch.samplers.posterior import Posterior
from shiftmatch.utils.hashing import content_hash
from shiftmatch.utils.parallel import track
from shiftmatch.utils.sequences import LazySequence

__all__ = [
    "METHODS",
    "Method",
    "batchnorm",
    "matching",
    "method_named",
    "online",
    "paper_setting",
    "predictor",
]

Batches: TypeAlias = Sequence[Tensor]
"""Clean training inputs; gone through once for each member and method."""

Members: TypeAlias = Sequence[nn.Module]

Prepare: TypeAlias = Callable[[Members, Batches, Path | None], Members]
"""The members of an ensemble, each made robust; what is measured of them may be kept in a file."""

PRIOR_IMAGES = 128
"""Images that the training statistics count for in the weighted variant: α = 128 / (128 + n) in batches of n."""

MICRO_BATCH = 100
"""Images that a plain network takes at a time."""

DEFAULT, PAPER = "ShiftMatch: spectrum", "ShiftMatch (paper)"
ALIASES = {"shiftmatch": DEFAULT}


@final
@dataclass(frozen=True, eq=False)
class Method:
    """One way to make networks robust: a network and clean training inputs in, a robust network out.

    Args:
        name: what tables call it.
        about: one line that explains it.
        prepare: the members and clean training inputs in, robust members out; what is measured may be kept in a file.

    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    >>> method_named("ShiftMatch")(net, torch.randn(200, 3, 8, 8).split(100))(torch.randn(100, 3, 8, 8)).shape
    torch.Size([100, 10])
    """

    name: str
    about: str
    prepare: Prepare

    def __call__(self, network: nn.Module, batches: Batches) -> nn.Module:
        """The network made robust; itself it stays as it was."""
        return self.prepare([network], batches, None)[0]


def predictor(
    method: Method,
    members: nn.Module | Posterior | Sequence[nn.Module],
    batches: Batches,
    *,
    path: Path | None = None,
) -> Average | EpisodicAverage:
    """One network, the members of an ensemble or the draws of a posterior, made robust each for itself and averaged.

    Args:
        method: what makes each of them robust.
        members: the network or networks.
        batches: clean training inputs.
        path: a file for the statistics of the members; memory then does not grow with their number.

    >>> members = [nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)) for _ in range(2)]
    >>> predict = predictor(method_named("ShiftMatch"), members, torch.randn(200, 4).split(100))
    >>> predict(torch.randn(100, 4)).shape
    torch.Size([100, 3])
    """
    if isinstance(members, Posterior):
        members = members.models()
    prepared = method.prepare([members] if isinstance(members, nn.Module) else members, batches, path)
    online = [member for member in prepared if isinstance(member, OnlineModel)] if isinstance(prepared, list) else []
    return EpisodicAverage(online) if online else average(prepared)


def method_named(name: str, *, pixel_std: float = 1.0) -> Method:
    """The method of that name, upper or lower case; "ShiftMatch" is the default one.

    Args:
        name: one of `METHODS`.
        pixel_std: what the pixels are divided by, for the paper's.

    >>> method_named("coral").name, method_named("shiftmatch").name
    ('CORAL', 'ShiftMatch: spectrum')
    """
    wanted = name.strip().lower()
    wanted = ALIASES.get(wanted, wanted).lower()
    found = next((method for known, method in METHODS.items() if known.lower() == wanted), None)
    if found is None:
        raise InputError(f"There is no method {name!r}; choose among {', '.join(METHODS)}.")
    return paper_setting(pixel_std) if found.name == PAPER else found


def matching(
    *,
    at: Place = "pre-activation",
    prior_images: float | int | None = None,
    strength: str = "full",
    **settings: Any,
) -> Prepare:
    """Match features to those of the training data: what a `Method` does with its members.

    Args:
        at: where: "pre-activation", "post-activation", "input" or "module".
        prior_images: as for `shiftmatch.match`.
        strength: as for `shiftmatch.match`.
        **settings: those of `shiftmatch.fit`.

    >>> rows = Method("rows", "rows of every channel only", matching(covariance=SpatialKronecker()))
    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    >>> type(rows(net, torch.randn(200, 3, 8, 8).split(100))).__name__
    'MatchedModel'
    """

    def prepare(members: Members, batches: Batches, path: Path | None) -> Members:
        known = settings | {"note": content_hash([batches, at, settings])}
        if path is not None:
            measured = _measured_before(path, known["note"], len(members)) or fit_members(
                members, batches, path, sites=sites(members[0], batches[0], at=at), **known
            )
            return match_members(members, measured, prior_images=prior_images, strength=strength)
        fitted = [
            fit(member, batches, sites=sites(member, batches[0], at=at), progress=False, **known)
            for member in track(members, "measuring statistics")
        ]
        return match_members(members, fitted, prior_images=prior_images, strength=strength)

    return prepare


def _measured_before(path: Path, note: str, members: int) -> Sequence[Statistics] | None:
    """What the file holds, if it was measured alike on the same images; `match` checks the networks."""
    if not path.exists():
        return None
    kept = load_members(path)
    return kept if len(kept) == members and kept[0].note == note else None


def batchnorm(*, prior_images: float | int = 0) -> Prepare:
    """Test-time batchnorm; for a network without BatchNorm the same with its channels, as in the paper.

    Args:
        prior_images: how many images the training statistics count for.

    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(288, 10)).eval()
    >>> adapted = Method("batchnorm", "test-time batchnorm", batchnorm())(net, [torch.randn(100, 3, 8, 8)])
    >>> adapted(torch.randn(100, 3, 8, 8)).shape
    torch.Size([100, 10])
    """

    def prepare(members: Members, batches: Batches, path: Path | None) -> Members:
        if any(map(has_source_statistics, members[0].modules())):
            return _each(members, partial(adapt_batchnorm, prior_images=prior_images))
        return matching(covariance=ChannelMoments(), prior_images=prior_images)(members, batches, path)

    return prepare


def online(setup: Setup, check: Callable[[nn.Module], object]) -> Prepare:
    """Members that change with what they see, so all of them are kept.

    Args:
        setup: makes a network ready to learn from batches, and says how.
        check: refuses networks that cannot.

    >>> method_named("Tent").prepare.__qualname__
    'online.<locals>.prepare'
    """

    def prepare(members: Members, batches: Batches, path: Path | None) -> Members:
        check(members[0])
        return [OnlineModel(member, setup) for member in members]

    return prepare


def _plain(members: Members, batches: Batches, path: Path | None) -> Members:
    return _each(members, Plain)


def _with_batchnorm(members: Members, batches: Batches, path: Path | None) -> Members:
    check_batchnorm(members[0])
    return matching(covariance=SpatialKronecker(), batchnorm="batch")(members, batches, path)


def _each(members: Members, wrap: Callable[[nn.Module], nn.Module]) -> LazySequence[nn.Module]:
    """Members that are wrapped when they are asked for, and not kept."""
    return LazySequence(len(members), partial(_wrapped, members, wrap))


def _wrapped(members: Members, wrap: Callable[[nn.Module], nn.Module], index: int) -> nn.Module:
    return wrap(members[index])


class Plain(nn.Module):
    """A network in evaluation mode, which takes a batch in pieces that stay in the cache: much faster on CPU."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = twin_of(model)

    def forward(self, x: Tensor) -> Tensor:
        """What the network says of each image; no image changes what it says of another."""
        return torch.cat([self.model(piece) for piece in x.split(MICRO_BATCH)])


def paper_setting(pixel_std: float = 1.0) -> Method:
    """ShiftMatch with the authors' constants.

    Args:
        pixel_std: what pixels from 0 to 1 are divided by.

    >>> paper_setting(0.25).name
    'ShiftMatch (paper)'
    """
    about = "the published method: the authors' constants, BatchNorm on batch statistics"
    return Method(PAPER, about, matching(preset=paper(pixel_std=pixel_std)))


_METHODS = [
    ("plain", "the network as it is", _plain),
    ("batchnorm", "BatchNorm on the batch's statistics; without BatchNorm, channel moments", batchnorm()),
    (
        "batchnorm-prior",
        f"the same, training statistics count for {PRIOR_IMAGES} images",
        batchnorm(prior_images=PRIOR_IMAGES),
    ),
    (
        "batchnorm-running",
        "BatchNorm on a running average over the batches",
        online(running_batchnorm, check_batchnorm),
    ),
    ("channel moments", "mean and variance of every channel", matching(covariance=ChannelMoments())),
    (DEFAULT, "mean and variance of every frequency of every channel: the default", matching(covariance=Spectrum())),
    (
        "ShiftMatch: auto",
        "plain, channel moments and spectrum, weighted by the network's confidence",
        matching(covariance=Spectrum(), strength="auto"),
    ),
    (
        "ShiftMatch: rows and columns",
        "rows, then columns, of every channel: the paper's structure",
        matching(covariance=SpatialKronecker()),
    ),
    ("ShiftMatch + batchnorm", "rows and columns, with BatchNorm on batch statistics", _with_batchnorm),
    (PAPER, paper_setting().about, paper_setting().prepare),
    ("ShiftMatch: Kronecker", "rows and columns at once: the paper's equation", matching(covariance=Kronecker())),
    ("ShiftMatch: SpatialFull", "all pixels of a channel", matching(covariance=SpatialFull())),
    ("ShiftMatch: ChannelJoint", "rows and columns shared by all channels", matching(covariance=ChannelJoint())),
    (
        "ShiftMatch: input only",
        "rows and columns, at the input alone",
        matching(covariance=SpatialKronecker(), at="input"),
    ),
    (
        "ShiftMatch: after activations",
        "rows and columns, after the nonlinearities",
        matching(covariance=SpatialKronecker(), at="post-activation"),
    ),
    ("CORAL", "covariance between the channels", matching(covariance=ChannelCovariance())),
    ("Tent", "gradient steps on the entropy of predictions (Wang et al., 2021)", online(tent, scales_and_shifts)),
]

METHODS = {name: Method(name, about, prepare) for name, about, prepare in _METHODS}
"""Every method by its name."""
