"""Ways to make networks robust, by name, so that they can be compared in one run."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, final, overload

import torch
from torch import Tensor, nn

from shiftmatch.averaging import Average, average
from shiftmatch.benchmark.adapting import Adapting, Begin, running_batchnorm, scales_and_shifts, tent
from shiftmatch.benchmark.identity import identity
from shiftmatch.core.covariance import ChannelCovariance, ChannelJoint, ChannelMoments, Kronecker, SpatialFull
from shiftmatch.errors import InputError
from shiftmatch.members import MemberStatistics, fit_members, match_members
from shiftmatch.progress import track
from shiftmatch.samplers.posterior import Posterior
from shiftmatch.sites.batchnorm import adapt_batchnorm, has_source_statistics
from shiftmatch.sites.matching import fit
from shiftmatch.sites.presets import paper
from shiftmatch.sites.selection import Place, sites

Batches: TypeAlias = Sequence[Tensor]
"""Clean training inputs; gone through once for each member and method."""

Prepare: TypeAlias = Callable[[Sequence[nn.Module], Batches, Path | None], Sequence[nn.Module]]
"""The members of an ensemble, each made robust; what is measured of them may be kept in a file."""

PIECE = 100
"""Images that a plain network takes at a time."""

PRIOR = 128
"""Images that the training statistics count for in the weighted variant: α = 128 / (128 + n) in batches of n."""


@final
@dataclass(frozen=True, eq=False)
class Method:
    """One way to make networks robust: a network and clean training inputs in, a robust network out.

    >>> import torch
    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    >>> METHODS["ShiftMatch"](net, torch.randn(200, 3, 8, 8).split(100))(torch.randn(100, 3, 8, 8)).shape
    torch.Size([100, 10])
    """

    name: str
    about: str
    prepare: Prepare

    def __call__(self, network: nn.Module, batches: Batches) -> nn.Module:
        """The network made robust; itself it stays as it was."""
        return self.prepare([network], batches, None)[0]


@final
@dataclass(frozen=True, eq=False)
class Episodes:
    """The average of networks that change with what they see; `reset` makes them forget."""

    members: Sequence[Adapting]

    def __call__(self, images: Tensor) -> Tensor:
        return average(self.members)(images)

    def reset(self) -> None:
        """Begin a new episode."""
        for member in self.members:
            member.reset()


def predictor(
    method: Method,
    members: nn.Module | Posterior | Sequence[nn.Module],
    batches: Batches,
    *,
    path: Path | None = None,
) -> Average | Episodes:
    """One network, the members of an ensemble or the draws of a posterior, made robust each for itself and averaged.

    With `path` the statistics of members are kept in that file, and memory does not grow with their number.
    """
    if isinstance(members, Posterior):
        members = members.models()
    prepared = method.prepare([members] if isinstance(members, nn.Module) else members, batches, path)
    changing = [member for member in prepared if isinstance(member, Adapting)] if isinstance(prepared, list) else []
    return Episodes(changing) if changing else average(prepared)


def method_named(name: str, *, pixel_std: float = 1.0) -> Method:
    """The method of that name, upper or lower case; `pixel_std` is what the pixels are divided by, for the paper's.

    >>> method_named("shiftmatch").name
    'ShiftMatch'
    """
    found = next((method for known, method in METHODS.items() if known.lower() == name.strip().lower()), None)
    if found is None:
        raise InputError(f"There is no method {name!r}; choose among {', '.join(METHODS)}.")
    return paper_setting(pixel_std) if found.name == PAPER_SETTING else found


def matching(*, at: Place = "pre-activation", prior: float | int = 0, **settings: Any) -> Prepare:
    """Match features to those of the training data; `settings` are those of `fit`."""

    def prepare(members: Sequence[nn.Module], batches: Batches, path: Path | None) -> Sequence[nn.Module]:
        known = settings | {"note": identity(batches)}
        if path is not None:
            kept = _measured_before(path, known["note"], len(members))
            places = sites(members[0], batches[0], at=at)
            return match_members(
                members, kept or fit_members(members, batches, path, sites=places, **known), prior=prior
            )
        show = track(members, "measuring statistics", show=len(members) > 1)
        alone = len(members) == 1
        fitted = [
            fit(member, batches, sites=sites(member, batches[0], at=at), progress=alone, **known) for member in show
        ]
        return match_members(members, fitted, prior=prior)

    return prepare


def _measured_before(path: Path, note: str, members: int) -> MemberStatistics | None:
    """What the file holds, if it was measured on the same images; whether on the same networks, `match` checks."""
    if not path.exists():
        return None
    kept = MemberStatistics.load(path)
    return kept if kept.header["note"] == note and len(kept) == members else None


def wrapping(wrap: Callable[[nn.Module], nn.Module]) -> Prepare:
    """Wrap every member when it is asked for; nothing is measured."""
    return lambda members, batches, path: Wrapped(members, wrap)


def adapting(begin: Begin, check: Callable[[nn.Module], object]) -> Prepare:
    """Members that change with what they see, and hence are all kept; `check` refuses those that cannot."""

    def prepare(members: Sequence[nn.Module], batches: Batches, path: Path | None) -> Sequence[nn.Module]:
        check(members[0])
        return [Adapting(member, begin) for member in members]

    return prepare


def batchnorm(*, prior: float | int = 0) -> Prepare:
    """Test-time batchnorm; for a network without BatchNorm the same with its channels, as in the paper."""

    def prepare(members: Sequence[nn.Module], batches: Batches, path: Path | None) -> Sequence[nn.Module]:
        if any(map(has_source_statistics, members[0].modules())):
            return Wrapped(members, partial(adapt_batchnorm, prior=prior))
        return matching(covariance=ChannelMoments(), prior=prior)(members, batches, path)

    return prepare


def matching_with_batchnorm(members: Sequence[nn.Module], batches: Batches, path: Path | None) -> Sequence[nn.Module]:
    """Matching with BatchNorm on batch statistics."""
    _check_batchnorm(members[0])
    return matching(batchnorm="batch")(members, batches, path)


def _check_batchnorm(network: nn.Module) -> None:
    if not any(map(has_source_statistics, network.modules())):
        raise InputError(
            f"{type(network).__name__} has no BatchNorm layer with running statistics, which this method changes. "
            "Leave it out; 'batchnorm' and 'ShiftMatch' take every network."
        )


@final
@dataclass(frozen=True, eq=False)
class Wrapped(Sequence[nn.Module]):
    """Members that are wrapped when they are asked for, and not kept."""

    members: Sequence[nn.Module]
    wrap: Callable[[nn.Module], nn.Module]

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[nn.Module]:
        for index in range(len(self)):
            yield self[index]

    @overload
    def __getitem__(self, which: int) -> nn.Module: ...
    @overload
    def __getitem__(self, which: slice) -> "Wrapped": ...
    def __getitem__(self, which: int | slice) -> "nn.Module | Wrapped":
        if isinstance(which, slice):
            return replace(self, members=self.members[which])
        return self.wrap(self.members[which])


class InPieces(nn.Module):
    """A network as it is. It takes large batches in pieces that stay in the cache: up to three times as fast on CPU."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model.eval()

    def forward(self, x: Tensor) -> Tensor:
        """What the network says of each image; no image changes what it says of another."""
        return torch.cat([self.model(piece) for piece in x.split(PIECE)])


PAPER_SETTING = "ShiftMatch (paper)"


def paper_setting(pixel_std: float = 1.0) -> Method:
    """ShiftMatch with the authors' constants, for inputs that are pixels from 0 to 1 divided by `pixel_std`."""
    about = "the authors' constants, BatchNorm on batch statistics"
    return Method(PAPER_SETTING, about, matching(preset=paper(pixel_std=pixel_std)))


def _registry(methods: Iterable[Method]) -> dict[str, Method]:
    return {method.name: method for method in methods}


METHODS = _registry(
    [
        Method("plain", "the network as it is", wrapping(InPieces)),
        Method("batchnorm", "BatchNorm on the batch's statistics; without BatchNorm, channel moments", batchnorm()),
        Method("batchnorm-prior", f"the same, training statistics count for {PRIOR} images", batchnorm(prior=PRIOR)),
        Method(
            "batchnorm-running",
            "BatchNorm on a running average over the batches",
            adapting(running_batchnorm, _check_batchnorm),
        ),
        Method("channel moments", "mean and variance of every channel", matching(covariance=ChannelMoments())),
        Method("ShiftMatch", "rows, then columns, of every channel", matching()),
        Method("ShiftMatch + batchnorm", "the same, with BatchNorm on batch statistics", matching_with_batchnorm),
        paper_setting(),
        Method(
            "ShiftMatch: Kronecker", "rows and columns at once: the paper's equation", matching(covariance=Kronecker())
        ),
        Method("ShiftMatch: SpatialFull", "all pixels of a channel", matching(covariance=SpatialFull())),
        Method(
            "ShiftMatch: ChannelJoint", "rows and columns shared by all channels", matching(covariance=ChannelJoint())
        ),
        Method("ShiftMatch: input only", "matching at the input alone", matching(at="input")),
        Method("ShiftMatch: after activations", "matching after the nonlinearities", matching(at="post-activation")),
        Method("CORAL", "covariance between the channels", matching(covariance=ChannelCovariance())),
        Method(
            "Tent",
            "gradient steps on the entropy of predictions (Wang et al., 2021)",
            adapting(tent, scales_and_shifts),
        ),
    ]
)
"""Every method by its name."""
