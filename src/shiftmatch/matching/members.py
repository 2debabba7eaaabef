"""The members of an ensemble or posterior, each with its own statistics: Algorithm 1 of the paper.

Statistics are measured, stored and read back one member at a time, so memory does not grow with their number.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from os import PathLike, fspath
from typing import Any

import torch
from torch import Tensor, nn

from shiftmatch.errors import FileFormatError, InputError, StatisticsMismatchError
from shiftmatch.matching.match import MatchedModel, fit, match
from shiftmatch.matching.statistics import Statistics
from shiftmatch.matching.strength import AutoMatchedModel
from shiftmatch.utils.files import parsing
from shiftmatch.utils.parallel import track
from shiftmatch.utils.sequences import LazySequence
from shiftmatch.utils.tensor_files import count_rows, load_header, load_row, save_rows

KIND, FORMAT = "statistics of members", 2
"""What files of them call themselves, and the newest form of them."""

ITS_MEMBERS = ("the statistics of its members", "Fit them again with shiftmatch.fit_members(members, data, path).")
"""What cannot be read in a damaged file, and what to do."""

WEIGHTS = "weights"
"""The tensor that holds the hashes of each member's weights; everything else of the header is common to all members."""

MAX_KEPT_BYTES = 64 << 20
"""Matched members are kept up to so many bytes in all, so that they are not built again for the next batch."""


def load_members(path: str | PathLike[str]) -> LazySequence[Statistics]:
    """The statistics that `fit_members` has written, one per member; each is read when it is asked for.

    Args:
        path: the file.

    >>> import tempfile
    >>> members = [nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)) for _ in range(2)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = fit_members(members, torch.randn(300, 4), f"{folder}/members.safetensors")
    ...     [statistics.images for statistics in load_members(f"{folder}/members.safetensors")]
    [300, 300]
    """
    header = load_header(path, kind=KIND, version=FORMAT)
    count = count_rows(path, kind=KIND, version=FORMAT)
    if header.get("count") != count:
        raise FileFormatError(f"{path} speaks of {header.get('count')} members, but holds {count}. {ITS_MEMBERS[1]}")
    return LazySequence(count, partial(_read, fspath(path), header))


def _read(path: str, header: dict[str, Any], index: int) -> Statistics:
    with parsing(path, *ITS_MEMBERS):
        row = load_row(path, index, kind=KIND, version=FORMAT)
        hashes = [bytes(one.tolist()).hex() for one in row.pop(WEIGHTS)]
        return Statistics.assemble(header | {WEIGHTS: dict(zip(header["weight_names"], hashes, strict=True))}, row)


def fit_members(
    members: Sequence[nn.Module],
    data: Iterable[Any],
    path: str | PathLike[str],
    *,
    dtype: torch.dtype = torch.float32,
    **settings: Any,
) -> LazySequence[Statistics]:
    """Measure the statistics of every member on the same clean training data, and write them to one file.

    Args:
        members: networks of one architecture.
        data: as for `fit`; it is gone through once for each member.
        path: the file to write.
        dtype: single precision halves the file and changes no prediction that matters; float64 keeps all digits.
        **settings: those of `fit`.

    >>> import tempfile
    >>> from shiftmatch.matching.average import average
    >>> members = [nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)) for _ in range(5)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     statistics = fit_members(members, torch.randn(300, 4), f"{folder}/members.safetensors")
    ...     average(match_members(members, statistics))(torch.randn(100, 4)).shape
    torch.Size([100, 3])
    """
    if isinstance(data, Iterator):
        raise InputError("The data is gone through once per member: pass a DataLoader, a list or a tensor of batches.")
    if not len(members):
        raise InputError("There are no members to measure; pass at least one network.")
    fitted = (fit(member, data, progress=False, **settings) for member in track(members, "measuring statistics"))
    return save_members(fitted, path, count=len(members), dtype=dtype)


def save_members(
    statistics: Iterable[Statistics], path: str | PathLike[str], *, count: int, dtype: torch.dtype = torch.float32
) -> LazySequence[Statistics]:
    """Write the statistics of so many members to one file, one at a time."""
    each = iter(statistics)
    first = next(each)
    common = _common(first)

    def row(statistics: Statistics) -> dict[str, Tensor]:
        if _common(statistics) != common:
            raise StatisticsMismatchError(
                "The members have different sites or saw different images, so their statistics do not fit into one "
                "file. Pass networks of one architecture, and batches that are the same each time."
            )
        hashes = [list(bytes.fromhex(digits)) for digits in statistics.weights.values()]
        return {WEIGHTS: torch.tensor(hashes, dtype=torch.uint8)} | statistics.tensors(dtype)

    header = common | {"count": count}
    save_rows(path, map(row, chain([first], each)), count=count, kind=KIND, version=FORMAT, header=header)
    return load_members(path)


def match_members(members: Sequence[nn.Module], statistics: Sequence[Statistics], **settings: Any) -> LazySequence[Any]:
    """The members, each matched to its own statistics when it is asked for.

    Args:
        members: networks of one architecture.
        statistics: those of each member, in the same order.
        **settings: those of `match`.

    >>> from shiftmatch.matching.match import fit
    >>> members = [nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)) for _ in range(2)]
    >>> images = torch.randn(300, 4)
    >>> matched = match_members(members, [fit(member, images) for member in members], prior_images=16)
    >>> len(matched), matched[1](images).shape
    (2, torch.Size([300, 3]))
    """
    if len(members) != len(statistics):
        raise StatisticsMismatchError(
            f"There are {len(members)} members but the statistics of {len(statistics)}; they do not belong together. "
            "Fit again with shiftmatch.fit_members(members, data, path)."
        )
    return LazySequence(len(members), _Matched(members, statistics, settings))


class _Matched:
    """Builds matched members, and keeps the first ones up to MAX_KEPT_BYTES."""

    def __init__(
        self, members: Sequence[nn.Module], statistics: Sequence[Statistics], settings: dict[str, Any]
    ) -> None:
        self.members, self.statistics, self.settings = members, statistics, settings
        self._kept: dict[int, MatchedModel | AutoMatchedModel] = {}
        self._bytes = 0

    def __call__(self, index: int) -> MatchedModel | AutoMatchedModel:
        if index in self._kept:
            return self._kept[index]
        built: MatchedModel | AutoMatchedModel = match(self.members[index], self.statistics[index], **self.settings)
        size = sum(tensor.nbytes for tensor in built.state_dict().values())
        if self._bytes + size <= MAX_KEPT_BYTES:
            self._kept[index], self._bytes = built, self._bytes + size
        return built

    def __getstate__(self) -> dict[str, Any]:
        """Without the matched members, which another process builds itself."""
        return vars(self) | {"_kept": {}, "_bytes": 0}


def _common(statistics: Statistics) -> dict[str, Any]:
    header = statistics.header()
    return {"weight_names": list(header.pop(WEIGHTS)), **header}
