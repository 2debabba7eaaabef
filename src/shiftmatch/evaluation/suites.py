"""Suites: a clean test set under every corruption at every severity, from published files or made on the fly."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import TypedDict, Unpack

import torch
from jaxtyping import Int64
from torch import Tensor

from shiftmatch.corruptions import corrupt, frost_source
from shiftmatch.data.catalog import published
from shiftmatch.data.download import read_provenance
from shiftmatch.data.image_set import open_images
from shiftmatch.data.images import ImageSource, Labelled
from shiftmatch.data.inventory import Severity, is_stored, layout_of, load, load_corrupted
from shiftmatch.data.writing import check_corruptions
from shiftmatch.errors import FileFormatError, InputError
from shiftmatch.models.preprocessing import Preprocessing
from shiftmatch.shapes import Pixels
from shiftmatch.utils.files import data_folder, frost_folder
from shiftmatch.utils.sequences import LazySequence

__all__ = ["Suite", "cifar10_c", "imagenet_c", "mnist_c", "open_suite", "prepared_batches", "training_batches"]

Root = str | os.PathLike[str] | None


@dataclass(frozen=True, eq=False)
class Suite:
    """A corruption benchmark: a clean test set under every corruption at every severity.

    Nothing corrupted is kept: each call of `images` reads or makes what it returns.

    Args:
        name: "cifar10-c", "imagenet-c" or "mnist-c".
        clean: the clean images with their labels.
        corruptions: which ones.
        severities: which ones; None where a corruption has one only.
        stored: the corruptions that are read from files; the others are made.
        seed: fixes what is random in those.
        root: the data folder.

    >>> clean = Labelled(torch.zeros(10, 3, 32, 32, dtype=torch.uint8), torch.arange(10), "zeros", "made up")
    >>> suite = Suite("cifar10-c", clean, corruptions=("brightness",), severities=(1, 5))
    >>> [suite.images(name, severity).unique().item() for name, severity in suite.cells()]
    [12, 76]
    """

    name: str
    clean: Labelled
    corruptions: tuple[str, ...]
    severities: tuple[Severity, ...]
    stored: tuple[str, ...] = ()
    seed: int = 0
    root: Path | None = None
    _opened: dict[tuple[str, Severity], Labelled] = field(default_factory=dict, init=False, repr=False)

    @property
    def labels(self) -> Int64[Tensor, "n"]:
        """The label of each image; the same under every corruption."""
        return self.clean.labels

    @property
    def source(self) -> str:
        """Where the corrupted images come from: files, made on the fly, or some of each."""
        made = [name for name in self.corruptions if name not in self.stored]
        parts = []
        if self.stored:
            folder = data_folder(self.root) / published(self.name).folder
            parts.append(f"{_listed(self.stored, self.corruptions)}: {_writer(folder)} in {folder}")
        if made:
            frost = f" and frost {frost_source(frost_folder(self.root))}" if "frost" in made else ""
            parts.append(f"{_listed(made, self.corruptions)}: made from {self.clean.name} with seed {self.seed}{frost}")
        return "; ".join(parts)

    def origin(self, corruption: str) -> str:
        """Where the images of one corruption come from, in words that hold on every machine."""
        if corruption in self.stored:
            return _writer(data_folder(self.root) / published(self.name).folder).partition(" in ")[0]
        frost = f" and frost {frost_source(frost_folder(self.root))}" if corruption == "frost" else ""
        return f"made from {self.clean.name} with seed {self.seed}{frost.partition(' in ')[0]}"

    def images(self, corruption: str, severity: Severity, index: Int64[Tensor, "b"] | None = None) -> Pixels:
        """The images (or those at `index`) under a corruption at a severity, in the order of the clean set.

        All 50,000 of ImageNet-C take 7.5 GB: take them by `index`, as streams do.
        """
        if corruption not in self.corruptions or severity not in self.severities:
            raise InputError(
                f"This suite has no {corruption!r} at severity {severity}; it has {', '.join(self.corruptions)} "
                f"at {self.severities}."
            )
        index = torch.arange(len(self)) if index is None else index
        if corruption in self.stored:
            return self._stored(corruption, severity).images[index]
        clean, frost = self.clean.images[index], frost_folder(self.root)
        return corrupt(clean, corruption, severity=severity, suite=self.name, seed=self.seed, frost=frost)

    def cells(self) -> Iterator[tuple[str, Severity]]:
        """Every corruption at every severity."""
        return ((name, severity) for name in self.corruptions for severity in self.severities)

    def __len__(self) -> int:
        """The number of images under each corruption."""
        return len(self.clean)

    def _stored(self, corruption: str, severity: Severity) -> Labelled:
        """Opened once: listing a folder of 50,000 pictures for every batch would take longer than reading them."""
        cell = (corruption, severity)
        if cell not in self._opened:
            stored = load_corrupted(self.name, corruption, severity, root=self.root)
            if not torch.equal(stored.labels[: len(self)], self.labels):
                raise FileFormatError(
                    f"The labels of {corruption} in {stored.source} are not those of {self.clean!r}: expected the same "
                    f"images in the same order. Remove the folder, or fetch both sets again."
                )
            self._opened[cell] = stored
        return self._opened[cell]


class SuiteOptions(TypedDict, total=False):
    """What may be chosen of a suite, as for `open_suite`."""

    corruptions: Sequence[str] | None
    severities: Sequence[int] | None
    limit: int | None
    seed: int


def mnist_c(root: Root = None, **options: Unpack[SuiteOptions]) -> Suite:
    r"""MNIST-C: 15 corruptions of the MNIST test set, each at its published severity.

    Args:
        root: the data folder; $SHIFTMATCH_DATA unless given, else the user's cache.
        **options: corruptions, limit and seed, as for `open_suite`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as root:
    ...     (Path(root) / "mnist").mkdir()
    ...     for name, shape in (("images-idx3", (4, 28, 28)), ("labels-idx1", (4,))):  # four black images of class 0
    ...         header = b"\0\0\x08" + bytes([len(shape)]) + b"".join(side.to_bytes(4, "big") for side in shape)
    ...         size = torch.Size(shape).numel()
    ...         _ = (Path(root) / "mnist" / f"t10k-{name}-ubyte").write_bytes(header + bytes(size))
    ...     list(mnist_c(root, corruptions=["fog"]).cells())
    [('fog', None)]
    """
    return open_suite("mnist-c", root, **options)


def cifar10_c(root: Root = None, **options: Unpack[SuiteOptions]) -> Suite:
    """CIFAR-10-C: 19 corruptions of the CIFAR-10 test set at five severities.

    Args:
        root: the data folder; $SHIFTMATCH_DATA unless given, else the user's cache.
        **options: corruptions, severities, limit and seed, as for `open_suite`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as root:
    ...     test = Path(root) / "cifar-10-batches-bin" / "test_batch.bin"
    ...     test.parent.mkdir()
    ...     _ = test.write_bytes(bytes(4 * 3073))  # four black images of class 0
    ...     list(cifar10_c(root, corruptions=["fog"], severities=[1, 5]).cells())
    [('fog', 1), ('fog', 5)]
    """
    return open_suite("cifar10-c", root, **options)


def imagenet_c(root: Root = None, **options: Unpack[SuiteOptions]) -> Suite:
    """ImageNet-C: 19 corruptions of the ImageNet validation set at five severities, 224 × 224.

    The order of the images mixes the classes, so that the first `limit` are a fair sample.

    Args:
        root: the data folder; $SHIFTMATCH_DATA unless given, else the user's cache.
        **options: corruptions, severities, limit and seed, as for `open_suite`.

    >>> imagenet_c("no such folder", severities=[6])
    Traceback (most recent call last):
    shiftmatch.errors.InputError: imagenet-c has the severities (1, 2, 3, 4, 5), not (6,).
    """
    return open_suite("imagenet-c", root, **options)


def open_suite(
    name: str,
    root: Root = None,
    *,
    corruptions: Sequence[str] | None = None,
    severities: Sequence[int] | None = None,
    limit: int | None = None,
    seed: int = 0,
) -> Suite:
    """The suite of this name, from published files where they are in the data folder, else made on the fly.

    Args:
        name: "cifar10-c", "imagenet-c" or "mnist-c".
        root: the data folder; $SHIFTMATCH_DATA unless given, else the user's cache.
        corruptions: which ones; all of the suite unless given.
        severities: which ones, from 1 to 5; all of them unless given.
        limit: take the first so many clean images only.
        seed: fixes what is random in corruptions that are made here.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as root:
    ...     test = Path(root) / "cifar-10-batches-bin" / "test_batch.bin"
    ...     test.parent.mkdir()
    ...     _ = test.write_bytes(bytes(4 * 3073))  # four black images of class 0
    ...     open_suite("cifar10-c", root, corruptions=["fog"], severities=[5]).source
    'all corruptions: made from cifar10 test with seed 0'
    """
    layout, folder = layout_of(name), data_folder(root)
    levels = tuple(severities or layout.severities)
    if not set(levels) <= set(layout.severities):
        raise InputError(f"{name} has the severities {layout.severities}, not {levels}.")
    chosen = check_corruptions(name, corruptions)
    stored = tuple(c for c in chosen if all(is_stored(name, c, level, root=folder) for level in levels))
    return Suite(name, load(layout.clean, root=folder, limit=limit), chosen, levels, stored, seed, folder)


def training_batches(
    suite: Suite, preprocess: Preprocessing, images: int, *, path: Path | None = None
) -> LazySequence[Tensor]:
    """Clean training images for a suite, as a network takes them, in batches.

    Args:
        suite: whose own training set is used unless `path` is given.
        preprocess: how pixels become inputs.
        images: take so many.
        path: a folder or an array of other images, which are mixed.

    >>> import tempfile, numpy as np
    >>> clean = Labelled(torch.zeros(2, 3, 32, 32, dtype=torch.uint8), torch.arange(2), "zeros", "made up")
    >>> suite = Suite("cifar10-c", clean, corruptions=("fog",), severities=(5,))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/own.npy", np.zeros((9, 32, 32, 3), np.uint8))
    ...     training_batches(suite, Preprocessing(), 6, path=Path(folder) / "own.npy")[0].shape
    torch.Size([6, 3, 32, 32])
    """
    layout = layout_of(suite.name)
    if path is None:
        train = load(layout.clean, "train", root=suite.root, limit=images)
        return prepared_batches(train.images, torch.arange(len(train)), preprocess)
    grey = suite.clean.images[torch.arange(1)].shape[1] == 1
    own = open_images(path, replace(preprocess, size=layout.side, grey=grey))
    # Folders are often sorted by class, and the first images would then be of one class.
    order = torch.randperm(len(own), generator=torch.Generator().manual_seed(0))[:images]
    return prepared_batches(own.images, order, preprocess)


def prepared_batches(
    images: ImageSource, index: Int64[Tensor, "_"], preprocess: Callable[[Tensor], Tensor], *, batch_size: int = 200
) -> LazySequence[Tensor]:
    """Images as a network takes them, in nearly equal batches; one is read when it is asked for.

    Args:
        images: pixels.
        index: the positions of the images wanted.
        preprocess: how pixels become inputs.
        batch_size: images in a batch, at most.

    >>> digits = torch.zeros(9, 1, 4, 4)
    >>> [len(batch) for batch in prepared_batches(digits, torch.arange(5), Preprocessing(), batch_size=3)]
    [3, 2]
    """
    parts = index.tensor_split(ceil(len(index) / batch_size))
    return LazySequence(len(parts), lambda part: preprocess(images[parts[part]]))


def _writer(folder: Path) -> str:
    note = read_provenance(folder)
    if note is None:
        return "published files"
    return f"files made by {note['made by']} with seed {note['seed']} and frost {note['frost']}"


def _listed(names: Sequence[str], of: Sequence[str]) -> str:
    return "all corruptions" if len(names) == len(of) else ", ".join(names)
