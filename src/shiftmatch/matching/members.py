"""The members of an ensemble or posterior, each with its own statistics: Algorithm 1 of the paper.

Statistics are measured, stored and read back one member at a time, so memory does not grow with their number.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from os import PathLike, fspath
from typing import Any, final, overload

import torch
from torch import Tensor, nn

from shiftmatch.errors import InputError, StatisticsMismatchError
from shiftmatch.matching.match import MatchedModel, fit, match
from shiftmatch.matching.statistics import Statistics
from shiftmatch.utils.progress import track
from shiftmatch.utils.tensor_files import load_header, load_row, save_rows

KIND, FORMAT = "statistics of members", 1
"""What files of them call themselves, and the newest form of them."""

WEIGHTS = "weights"
"""The tensor that holds each member's fingerprint; everything else of the header is common to all members."""


@final
@dataclass(frozen=True)
class MemberStatistics(Sequence[Statistics]):
    """The statistics of every member, in one file; each is read when it is asked for, and none is kept."""

    path: str
    rows: range
    header: dict[str, Any]

    @staticmethod
    def load(path: str | PathLike[str]) -> "MemberStatistics":
        """Open a file that `fit_members` has written."""
        header = load_header(path, kind=KIND, version=FORMAT)
        return MemberStatistics(fspath(path), range(header.pop("count")), header)

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, which: int) -> Statistics: ...
    @overload
    def __getitem__(self, which: slice) -> "MemberStatistics": ...
    def __getitem__(self, which: int | slice) -> "Statistics | MemberStatistics":
        if isinstance(which, slice):
            return replace(self, rows=self.rows[which])
        row = load_row(self.path, self.rows[which], kind=KIND, version=FORMAT)
        weights = row.pop(WEIGHTS).numpy().tobytes().hex()
        return Statistics.assemble(self.header | {WEIGHTS: weights}, row)


def fit_members(
    members: Sequence[nn.Module],
    batches: Iterable[Any],
    path: str | PathLike[str],
    *,
    dtype: torch.dtype = torch.float32,
    **settings: Any,
) -> MemberStatistics:
    """Measure the statistics of every member on the same clean training data, and write them to one file.

    `batches` and `settings` are those of `fit`; the batches are gone through once for each member. Single
    precision halves the file and changes no prediction that matters; pass `dtype=torch.float64` for all digits.

    >>> import tempfile
    >>> from shiftmatch.matching.average import average
    >>> members = [nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)) for _ in range(5)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     statistics = fit_members(members, torch.randn(300, 4), f"{folder}/members.safetensors")
    ...     average(match_members(members, statistics))(torch.randn(100, 4)).shape
    torch.Size([100, 3])
    """
    if isinstance(batches, Iterator):
        raise InputError("The batches are gone through once per member: pass a DataLoader, a list or a tensor of them.")
    if not len(members):
        raise InputError("There are no members to measure; pass at least one network.")
    fitted = (fit(member, batches, progress=False, **settings) for member in track(members, "measuring statistics"))
    first = next(fitted)
    common = _common(first)

    def row(statistics: Statistics) -> dict[str, Tensor]:
        if _common(statistics) != common:
            raise StatisticsMismatchError(
                "The members have different sites or saw different images, so their statistics do not fit into one "
                "file. Pass networks of one architecture, and batches that are the same each time."
            )
        weights = torch.tensor(list(bytes.fromhex(statistics.weights)), dtype=torch.uint8)
        return {WEIGHTS: weights} | statistics.tensors(dtype)

    header = common | {"count": len(members)}
    rows = map(row, chain([first], fitted))
    save_rows(path, rows, count=len(members), kind=KIND, version=FORMAT, header=header)
    return MemberStatistics.load(path)


def match_members(
    members: Sequence[nn.Module], statistics: Sequence[Statistics], *, prior: float | int = 0
) -> "MatchedMembers":
    """The members, each matched to its own statistics: a sequence that builds one when it is asked for."""
    if len(members) != len(statistics):
        raise StatisticsMismatchError(
            f"There are {len(members)} members but the statistics of {len(statistics)}; they do not belong together. "
            "Fit again with shiftmatch.fit_members(members, batches, path)."
        )
    return MatchedMembers(members, statistics, prior)


@final
@dataclass(frozen=True, eq=False)
class MatchedMembers(Sequence[MatchedModel]):
    """Members with their statistics; `average` goes through them one by one and keeps none."""

    members: Sequence[nn.Module]
    statistics: Sequence[Statistics]
    prior: float | int

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[MatchedModel]:
        # Unlike the inherited one, this holds no member while it builds the next.
        for index in range(len(self)):
            yield self[index]

    @overload
    def __getitem__(self, which: int) -> MatchedModel: ...
    @overload
    def __getitem__(self, which: slice) -> "MatchedMembers": ...
    def __getitem__(self, which: int | slice) -> "MatchedModel | MatchedMembers":
        if isinstance(which, slice):
            return replace(self, members=self.members[which], statistics=self.statistics[which])
        return match(self.members[which], self.statistics[which], prior=self.prior)


def _common(statistics: Statistics) -> dict[str, Any]:
    return {name: value for name, value in statistics.header().items() if name != WEIGHTS}
