"""Statistics: what is remembered of the training data at every site of one network."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from math import ceil
from os import PathLike
from typing import Any, Literal, TypeAlias, Unpack, final

import torch
from torch import Tensor

from shiftmatch.core.covariance import STRUCTURES, ChannelMoments, Covariance, Tolerance
from shiftmatch.core.linalg import Ridge, pack, unpack
from shiftmatch.core.moments import Moments
from shiftmatch.core.pieces import Rooms
from shiftmatch.core.transport import How, measure, transport
from shiftmatch.errors import FileFormatError, StatisticsMismatchError
from shiftmatch.matching.site import Layout, Site, table
from shiftmatch.utils.tensor_files import load_tensors, save_tensors

KIND, FORMAT = "statistics", 1
"""What files of statistics call themselves, and the newest form of them."""

BatchNormMode: TypeAlias = Literal["eval", "batch"]
"""Whether BatchNorm layers normalise with their running statistics or with those of the batch."""


@final
@dataclass(frozen=True, eq=False)
class SiteStatistics:
    """The moments of training features at one site: for each part of its layout, each view of the covariance."""

    site: Site
    covariance: Covariance
    parts: tuple[tuple[Moments, ...], ...]

    @classmethod
    def of(cls, site: Site, covariance: Covariance, x: Tensor, rooms: Rooms | None = None) -> "SiteStatistics":
        """Measure one batch; `rooms` are memory from a call before."""
        features = site.layout.split(x)
        parts = tuple(measure(_structure(covariance, i), part, rooms) for i, part in enumerate(features))
        return cls(site, covariance, parts)

    def match(self, x: Tensor, **how: Unpack[How]) -> Tensor:
        """Move a batch to these moments, with the settings of `transport`."""
        parts = [
            transport(part, _structure(self.covariance, i), train, **how)
            for i, (part, train) in enumerate(zip(self.site.layout.split(x), self.parts, strict=True))
        ]
        return self.site.layout.join(parts)

    def __add__(self, other: "SiteStatistics") -> "SiteStatistics":
        pairs = zip(self.parts, other.parts, strict=True)
        parts = tuple(tuple(a + b for a, b in zip(ours, theirs, strict=True)) for ours, theirs in pairs)
        return SiteStatistics(self.site, self.covariance, parts)


def _structure(covariance: Covariance, part: int) -> Covariance:
    """Tokens apart from the map are matched in mean and variance: a batch is too small for their dense covariance."""
    return covariance if part == 0 else ChannelMoments(covariance.tolerance)


@final
@dataclass(frozen=True, eq=False)
class Statistics(Mapping[str, SiteStatistics]):
    """The statistics of every site of one network, by the name of the site; `+` merges those of two sets of images."""

    sites: dict[str, SiteStatistics]
    images: int
    batchnorm: BatchNormMode
    weights: str  # fingerprint of the network they were measured in
    inputs: dict[str, tuple[int, ...]]  # shapes of the network's inputs, without the batch axis
    note: str = ""  # the user's own words, such as how the images were preprocessed

    def __getitem__(self, name: str) -> SiteStatistics:
        return self.sites[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.sites)

    def __len__(self) -> int:
        return len(self.sites)

    def __add__(self, other: "Statistics") -> "Statistics":
        for field in ("weights", "batchnorm", "inputs"):
            ours, theirs = getattr(self, field), getattr(other, field)
            if ours != theirs:
                raise StatisticsMismatchError(
                    f"Only statistics of one network, measured in one way, can be merged; {field} differs: "
                    f"{ours!r} and {theirs!r}."
                )
        alone = {name: other.sites[name] for name in other.sites.keys() - self.sites.keys()}
        both = {name: ours + other.sites[name] if name in other.sites else ours for name, ours in self.sites.items()}
        return Statistics(
            both | alone, self.images + other.images, self.batchnorm, self.weights, self.inputs, self.note
        )

    @property
    def images_wanted(self) -> int:
        """How many images a batch should have, so that no covariance has fewer than twice as many samples as sides."""
        every = (moments for entry in self.values() for _, moments in _keyed(entry))
        return max(ceil(2 * m.mean.shape[-2] * self.images / (m.count * m.mean.shape[-1])) for m in every)

    def save(self, path: str | PathLike[str]) -> None:
        """Write one safetensors file, whole or not at all."""
        save_tensors(path, self.tensors(), kind=KIND, version=FORMAT, header=self.header())

    @staticmethod
    def load(path: str | PathLike[str]) -> "Statistics":
        """Read what `save` has written; a damaged or foreign file is refused."""
        tensors, header = load_tensors(path, kind=KIND, version=FORMAT)
        try:
            return Statistics.assemble(header, tensors)
        except (KeyError, TypeError, RuntimeError) as error:
            raise FileFormatError(
                f"{path} lacks a part of its statistics ({error}). Fit and save them again."
            ) from error

    def tensors(self, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
        """The numbers, as files keep them: symmetric matrices packed, in the given precision."""
        found: dict[str, Tensor] = {}
        for name, entry in self.sites.items():
            for key, moments in _keyed(entry):
                found[f"{name}|{key}|mean"] = moments.mean.to(dtype)
                found[f"{name}|{key}|scatter"] = pack(moments.scatter).to(dtype)
        return found

    def header(self) -> dict[str, Any]:
        """All but the numbers, as files keep it."""
        header = asdict(replace(self, sites={}))
        header["sites"] = [_entry_to_json(entry) for entry in self.sites.values()]
        header["versions"] = {"torch": torch.__version__, "shiftmatch": version("shiftmatch")}
        return header

    @staticmethod
    def assemble(header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> "Statistics":
        """Statistics from their header and their numbers."""
        entries = [_entry_from_json(text, tensors) for text in header["sites"]]
        return Statistics(
            {entry.site.name: entry for entry in entries},
            header["images"],
            header["batchnorm"],
            header["weights"],
            {name: tuple(shape) for name, shape in header["inputs"].items()},
            header["note"],
        )

    def describe(self) -> None:
        """Print the sites and what is known of them as a table."""
        print(self)

    def __repr__(self) -> str:
        rows = [
            (name, type(entry.covariance).__name__, " × ".join(map(str, entry.site.shape)), str(_size(entry)))
            for name, entry in self.sites.items()
        ]
        head = f"{len(self)} sites, {self.images} images, BatchNorm: {self.batchnorm}, weights {self.weights[:12]}"
        return f"{head}\n{table(('site', 'covariance', 'shape', 'numbers'), rows)}"


def _size(entry: SiteStatistics) -> int:
    return sum(moments.mean.numel() + pack(moments.scatter).numel() for _, moments in _keyed(entry))


def _keyed(entry: SiteStatistics) -> Iterator[tuple[str, Moments]]:
    for i, part in enumerate(entry.parts):
        for j, moments in enumerate(part):
            yield f"{i}.{j}", moments


def _entry_to_json(entry: SiteStatistics) -> dict[str, Any]:
    covariance = {"kind": type(entry.covariance).__name__, "tolerance": asdict(entry.covariance.tolerance)}
    return {"site": asdict(entry.site), "covariance": covariance, "counts": [[m.count for m in p] for p in entry.parts]}


def _entry_from_json(text: dict[str, Any], tensors: Mapping[str, Tensor]) -> SiteStatistics:
    layout, name = text["site"]["layout"], text["site"]["name"]
    site = Site(
        name,
        text["site"]["kind"],
        tuple(text["site"]["shape"]),
        Layout(layout["channel"], tuple(layout["grid"]), layout["prefix"]),
    )
    ridges = {side: Ridge(**ridge) for side, ridge in text["covariance"]["tolerance"].items()}
    covariance = STRUCTURES[text["covariance"]["kind"]](tolerance=Tolerance(**ridges))

    def moments(i: int, j: int, count: int) -> Moments:
        mean, scatter = (tensors[f"{name}|{i}.{j}|{what}"].double() for what in ("mean", "scatter"))
        return Moments(count, mean, unpack(scatter, mean.shape[-2]))

    parts = tuple(tuple(moments(i, j, n) for j, n in enumerate(part)) for i, part in enumerate(text["counts"]))
    return SiteStatistics(site, covariance, parts)
