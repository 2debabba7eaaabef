"""Statistics: the moments of training features at every site of one network."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from hashlib import sha256
from importlib.metadata import version
from math import ceil
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, final

import torch
from torch import Tensor

from shiftmatch.core.covariance import STRUCTURES, Covariance
from shiftmatch.core.linalg import pack, unpack
from shiftmatch.core.moments import Moments
from shiftmatch.core.spectrum import ChannelMoments, Spectrum
from shiftmatch.errors import FileFormatError, StatisticsMismatchError
from shiftmatch.matching.batchnorm import BatchNormMode
from shiftmatch.matching.classes import MAX_CLASSES, ClassMoments, with_shares
from shiftmatch.matching.packs import CARD, FILE, card, find_pack, push_pack
from shiftmatch.matching.sites import Layout, Site, table, times
from shiftmatch.utils.files import parsing
from shiftmatch.utils.tensor_files import load_tensors, save_tensors

KIND, FORMAT = "statistics", 2
"""What files of statistics call themselves, and the newest form of them."""

FINGERPRINT = "fingerprint"
"""What files call the moments of the images' fingerprints, which older ones do not have."""

CLASS_COUNT = "class count"
"""The tensor of how many images each class has, at all sites."""


@final
@dataclass(frozen=True, eq=False)
class SiteStatistics:
    """The moments of training features at one site, for each part of its layout; of its channels also by class."""

    site: Site
    covariance: Covariance
    parts: tuple[tuple[Moments, ...], ...]
    classes: tuple[ClassMoments, ...] = ()  # for each part, where outputs are logits of MAX_CLASSES at most

    @classmethod
    def of(cls, site: Site, covariance: Covariance, x: Tensor) -> "SiteStatistics":
        """Measure one batch."""
        features = site.layout.split(x)
        measured = (part_covariance(covariance, i).measure(part) for i, part in enumerate(features))
        return cls(site, covariance, tuple(tuple(m.to("cpu") for m in part) for part in measured))

    def __add__(self, other: "SiteStatistics") -> "SiteStatistics":
        for name in ("site", "covariance"):
            ours, theirs = getattr(self, name), getattr(other, name)
            if ours != theirs:
                raise StatisticsMismatchError(
                    f"Only statistics measured in one way can be merged; at {self.site.name!r} the {name} differs: "
                    f"{ours} and {theirs}. Fit both with the same sites and covariance."
                )
        pairs = zip(self.parts, other.parts, strict=True)
        parts = tuple(tuple(a + b for a, b in zip(ours, theirs, strict=True)) for ours, theirs in pairs)
        alike = all(len(a.count) == len(b.count) for a, b in zip(self.classes, other.classes, strict=False))
        classes = tuple(a + b for a, b in zip(self.classes, other.classes, strict=False)) if alike else ()
        return replace(self, parts=parts, classes=classes)

    def channel_moments(self) -> list[Moments]:
        """Mean and variance of the channels of each part; for a Spectrum and ChannelMoments."""
        return [
            (own.channel_moments(train, space) if isinstance(own, Spectrum) else train)[0]
            for own, train, space in self.structures()
        ]

    def with_shares(self, shares: Tensor) -> "SiteStatistics":
        """What they would be with other class shares."""
        found = zip(self.structures(), self.classes, strict=True)
        return replace(self, parts=tuple(with_shares(*part, of_class, shares) for part, of_class in found), classes=())

    def structures(self) -> Iterator[tuple[Covariance, tuple[Moments, ...], tuple[int, ...]]]:
        """The structure of each part, its training moments, and the size of its map."""
        for i, (train, space) in enumerate(zip(self.parts, self.site.layout.spaces(self.site.shape), strict=True)):
            yield part_covariance(self.covariance, i), train, space


def part_covariance(covariance: Covariance, part: int) -> Covariance:
    """Tokens before the map are matched in mean and variance: a batch is too small for their dense covariance."""
    return covariance if part == 0 else ChannelMoments()


@final
@dataclass(frozen=True, eq=False)
class Statistics(Mapping[str, SiteStatistics]):
    """The statistics of every site of one network, by the name of the site; `+` merges those of two sets of images.

    Args:
        sites: what was measured at each site.
        images: how many images were measured.
        batchnorm: in which mode BatchNorm was.
        weights: a hash of every weight of the network they were measured in.
        inputs: shapes of the network's inputs, without the batch axis.
        note: the user's own words.
        classes: the names of the classes, in the order of the network's outputs.
        preprocessing: how pixels became inputs: mean, std, size.
        fingerprint: moments of the images' fingerprints (core/fingerprint.py), by which corruptions are told apart.

    >>> import shiftmatch as sm
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    >>> images = torch.randn(300, 4)
    >>> both = sm.fit(net, images[:100]) + sm.fit(net, images[100:])  # two machines, each with its share
    >>> both.images, list(both)
    (300, ['input', '0'])
    """

    sites: dict[str, SiteStatistics]
    images: int
    batchnorm: BatchNormMode
    weights: dict[str, str]
    inputs: dict[str, tuple[int, ...]]
    note: str = ""
    classes: tuple[str, ...] = ()
    preprocessing: dict[str, Any] = field(default_factory=dict)
    fingerprint: Moments | None = None

    def __getitem__(self, name: str) -> SiteStatistics:
        return self.sites[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.sites)

    def __len__(self) -> int:
        return len(self.sites)

    def __add__(self, other: "Statistics") -> "Statistics":
        for name in ("weights", "batchnorm", "inputs", "classes", "preprocessing"):
            ours, theirs = getattr(self, name), getattr(other, name)
            if ours != theirs:
                shown = f"{ours!r} and {theirs!r}" if name != "weights" else "they are those of two networks"
                raise StatisticsMismatchError(
                    f"Only statistics of one network, measured in one way, can be merged; {name} differs: {shown}."
                )
        if odd := self.sites.keys() ^ other.sites.keys():
            raise StatisticsMismatchError(
                f"Only statistics of the same sites can be merged; {', '.join(sorted(odd))} is in one of them only. "
                "Fit both with the same sites."
            )
        both = {name: entry + other.sites[name] for name, entry in self.sites.items()}
        prints = self.fingerprint + other.fingerprint if self.fingerprint and other.fingerprint else None
        return replace(self, sites=both, images=self.images + other.images, fingerprint=prints)

    @property
    def class_shares(self) -> Tensor | None:
        """The class shares that the network predicts for its training data; None if there are no moments by class."""
        entries = [entry.classes for entry in self.values()]
        return entries[0][0].shares if entries and all(entries) else None

    def with_class_shares(self, shares: Tensor) -> "Statistics":
        """What the statistics would be if the training data had these class shares: a target for batches with them.

        >>> import shiftmatch as sm
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
        >>> statistics = sm.fit(net, torch.randn(300, 4))
        >>> robust = sm.match(net, statistics.with_class_shares(torch.tensor([0.5, 0.5, 0.0])))
        """
        known = self.class_shares
        if known is None or shares.shape != known.shape:
            kept = f"moments of {len(known)} classes" if known is not None else "no moments by class"
            raise StatisticsMismatchError(
                f"These statistics have {kept}; got shares of shape {tuple(shares.shape)}. Fit a classifier of up to "
                f"{MAX_CLASSES} classes with Spectrum or ChannelMoments, and pass one share for each class."
            )
        return replace(self, sites={name: entry.with_shares(shares.double()) for name, entry in self.items()})

    @property
    def images_wanted(self) -> int:
        """How many images a batch should have, so that each d × d covariance is measured on at least 2 d samples."""
        found = (moments for entry in self.values() for _, moments in _keyed(entry))
        return max(ceil(2 * m.mean.shape[-2] * self.images / (m.count * m.mean.shape[-1])) for m in found)

    def save(self, path: str | PathLike[str]) -> None:
        """Write one safetensors file, whole or not at all."""
        save_tensors(path, self.tensors(), kind=KIND, version=FORMAT, header=self.header())

    @staticmethod
    def load(path: str | PathLike[str]) -> "Statistics":
        """Read what `save` has written; a damaged or foreign file is refused."""
        tensors, header = load_tensors(path, kind=KIND, version=FORMAT)
        with parsing(path, "its statistics", "Fit and save them again."):
            return Statistics.assemble(header, tensors)

    @property
    def weights_hash(self) -> str:
        """SHA-256 of the hashes of all weights."""
        return sha256(repr(self.weights).encode()).hexdigest()

    def save_pretrained(
        self, folder: str | PathLike[str], *, data: str = "", gains: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        """Write a pack: a folder with the statistics and a card (README.md) that says what they are.

        `data` says in words what was measured; `gains` are rows for the card, such as {"data": "CIFAR-10-C", "metric":
        "accuracy", "plain": 71.0, "matched": 80.0, "gain": 9.0, "interval": "8.5 to 9.5"}.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        save_tensors(folder / FILE, self.tensors(torch.float64), kind=KIND, version=FORMAT, header=self.header())
        (folder / CARD).write_text(card(self, data=data, gains=gains), encoding="utf-8")

    @staticmethod
    def from_pretrained(source: str | PathLike[str]) -> "Statistics":
        """Read a pack: a folder that `save_pretrained` has written, or a repository of the Hugging Face Hub."""
        return Statistics.load(find_pack(source))

    def push_to_hub(self, repository: str, *, data: str = "", gains: Sequence[Mapping[str, Any]] = ()) -> str:
        """Upload a pack to a repository of the Hub (owner/name), as the account that huggingface_hub knows."""
        with TemporaryDirectory() as folder:
            self.save_pretrained(folder, data=data, gains=gains)
            return push_pack(Path(folder), repository)

    def tensors(self, dtype: torch.dtype | None = None) -> dict[str, Tensor]:
        """The numbers, as files keep them: symmetric matrices packed, spectra in single precision."""
        found: dict[str, Tensor] = {}
        for name, entry in self.sites.items():
            kept = dtype or (torch.float32 if isinstance(entry.covariance, Spectrum) else torch.float64)
            for key, moments in _keyed(entry):
                found[f"{name}|{key}|mean"] = moments.mean.to(kept)
                found[f"{name}|{key}|covariance"] = pack(moments.covariance).to(kept)
            for i, of_class in enumerate(entry.classes):
                found[f"{name}|{i}|class mean"] = of_class.mean.to(kept)
                found[f"{name}|{i}|class variance"] = of_class.variance.to(kept)
                found[CLASS_COUNT] = of_class.count
        if self.fingerprint:
            found[f"{FINGERPRINT}|mean"] = self.fingerprint.mean.to(dtype or torch.float64)
            found[f"{FINGERPRINT}|covariance"] = pack(self.fingerprint.covariance).to(dtype or torch.float64)
        return found

    def header(self) -> dict[str, Any]:
        """All but the numbers, as files keep it."""
        header = asdict(replace(self, sites={}, fingerprint=None))
        header[FINGERPRINT] = self.fingerprint and self.fingerprint.count
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
            tuple(header["classes"]),
            header["preprocessing"],
            _moments(tensors, FINGERPRINT, header[FINGERPRINT]) if header.get(FINGERPRINT) else None,
        )

    def describe(self) -> None:
        """Print the sites and what is known of them as a table."""
        print(self)

    def __repr__(self) -> str:
        rows = [
            (name, type(entry.covariance).__name__, times(entry.site.shape), str(_size(entry)))
            for name, entry in self.sites.items()
        ]
        head = f"{len(self)} sites, {self.images} images, BatchNorm: {self.batchnorm}"
        return f"{head}\n{table(('site', 'covariance', 'shape', 'numbers'), rows)}"


def _size(entry: SiteStatistics) -> int:
    return sum(moments.mean.numel() + pack(moments.covariance).numel() for _, moments in _keyed(entry))


def _keyed(entry: SiteStatistics) -> Iterator[tuple[str, Moments]]:
    for i, part in enumerate(entry.parts):
        for j, moments in enumerate(part):
            yield f"{i}.{j}", moments


def _entry_to_json(entry: SiteStatistics) -> dict[str, Any]:
    covariance = {"kind": type(entry.covariance).__name__, "settings": asdict(entry.covariance)}  # type: ignore[call-overload]
    return {"site": asdict(entry.site), "covariance": covariance, "counts": [[m.count for m in p] for p in entry.parts]}


def _entry_from_json(text: dict[str, Any], tensors: Mapping[str, Tensor]) -> SiteStatistics:
    name, kind = text["site"]["name"], text["covariance"]["kind"]
    layout = text["site"]["layout"]
    read_as = Layout(layout["channel"], tuple(layout["grid"]), layout["prefix"])
    if kind not in STRUCTURES:
        raise FileFormatError(
            f"These statistics were fitted with the covariance {kind!r}, which is not known here. Import it and call "
            f"shiftmatch.register_covariance({kind}) before loading."
        )
    site = Site(**text["site"] | {"shape": tuple(text["site"]["shape"]), "layout": read_as})
    covariance = _rebuilt(STRUCTURES[kind](), text["covariance"]["settings"])

    parts = tuple(
        tuple(_moments(tensors, f"{name}|{i}.{j}", count) for j, count in enumerate(part))
        for i, part in enumerate(text["counts"])
    )
    classes = [
        ClassMoments(
            *(tensors[key].double() for key in (CLASS_COUNT, f"{name}|{i}|class mean", f"{name}|{i}|class variance"))
        )
        for i in range(len(parts))
        if f"{name}|{i}|class mean" in tensors
    ]
    return SiteStatistics(site, covariance, parts, tuple(classes))


def _moments(tensors: Mapping[str, Tensor], name: str, count: int) -> Moments:
    mean, packed = (tensors[f"{name}|{what}"].double() for what in ("mean", "covariance"))
    return Moments(count, mean, unpack(packed, mean.shape[-2]) * (count * mean.shape[-1]))


def _rebuilt(default: Any, settings: Mapping[str, Any]) -> Any:
    """A dataclass with other settings, dataclasses among them included."""
    parts = {name: getattr(default, name) for name in settings}
    return replace(default, **{n: _rebuilt(parts[n], v) if is_dataclass(parts[n]) else v for n, v in settings.items()})
