"""What methods are made of: from the members of an ensemble to members that are robust."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, final, overload

import torch
from torch import Tensor, nn

from shiftmatch.core.covariance import ChannelMoments
from shiftmatch.errors import InputError
from shiftmatch.evaluation.online import Adapting, Begin
from shiftmatch.matching.batchnorm import adapt_batchnorm, has_source_statistics
from shiftmatch.matching.match import fit
from shiftmatch.matching.members import fit_members, load_members, match_members
from shiftmatch.matching.selection import Place, sites
from shiftmatch.matching.statistics import Statistics
from shiftmatch.matching.twin import twin_of
from shiftmatch.utils.hashing import content_hash
from shiftmatch.utils.progress import track

Batches: TypeAlias = Sequence[Tensor]
"""Clean training inputs; gone through once for each member and method."""

PIECE = 100
"""Images that a plain network takes at a time."""

Prepare: TypeAlias = Callable[[Sequence[nn.Module], Batches, Path | None], Sequence[nn.Module]]
"""The members of an ensemble, each made robust; what is measured of them may be kept in a file."""


def matching(*, at: Place = "pre-activation", prior_images: float | int | None = None, **settings: Any) -> Prepare:
    """Match features to those of the training data; `settings` are those of `fit`."""

    def prepare(members: Sequence[nn.Module], batches: Batches, path: Path | None) -> Sequence[nn.Module]:
        known = settings | {"note": content_hash([batches, at, settings])}
        if path is not None:
            measured = _measured_before(path, known["note"], len(members)) or fit_members(
                members, batches, path, sites=sites(members[0], batches[0], at=at), **known
            )
            return match_members(members, measured, prior_images=prior_images)
        fitted = [
            fit(member, batches, sites=sites(member, batches[0], at=at), progress=False, **known)
            for member in track(members, "measuring statistics")
        ]
        return match_members(members, fitted, prior_images=prior_images)

    return prepare


def _measured_before(path: Path, note: str, members: int) -> Sequence[Statistics] | None:
    """What the file holds, if it was measured alike on the same images; `match` checks the networks."""
    if not path.exists():
        return None
    kept = load_members(path)
    return kept if len(kept) == members and kept[0].note == note else None


def wrapping(wrap: Callable[[nn.Module], nn.Module]) -> Prepare:
    """Wrap every member when it is asked for; nothing is measured."""
    return lambda members, batches, path: Wrapped(members, wrap)


def adapting(begin: Begin, check: Callable[[nn.Module], object]) -> Prepare:
    """Members that change with what they see, and hence are all kept; `check` refuses those that cannot."""

    def prepare(members: Sequence[nn.Module], batches: Batches, path: Path | None) -> Sequence[nn.Module]:
        check(members[0])
        return [Adapting(member, begin) for member in members]

    return prepare


def batchnorm(*, prior_images: float | int = 0) -> Prepare:
    """Test-time batchnorm; for a network without BatchNorm the same with its channels, as in the paper."""

    def prepare(members: Sequence[nn.Module], batches: Batches, path: Path | None) -> Sequence[nn.Module]:
        if any(map(has_source_statistics, members[0].modules())):
            return Wrapped(members, partial(adapt_batchnorm, prior_images=prior_images))
        return matching(covariance=ChannelMoments(), prior_images=prior_images)(members, batches, path)

    return prepare


def matching_with_batchnorm(members: Sequence[nn.Module], batches: Batches, path: Path | None) -> Sequence[nn.Module]:
    """Matching with BatchNorm on batch statistics."""
    check_batchnorm(members[0])
    return matching(batchnorm="batch")(members, batches, path)


def check_batchnorm(network: nn.Module) -> None:
    """Refuse a network without BatchNorm."""
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


class Plain(nn.Module):
    """A network in evaluation mode, which takes a batch in pieces that stay in the cache: much faster on CPU."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = twin_of(model)

    def forward(self, x: Tensor) -> Tensor:
        """What the network says of each image; no image changes what it says of another."""
        return torch.cat([self.model(piece) for piece in x.split(PIECE)])
