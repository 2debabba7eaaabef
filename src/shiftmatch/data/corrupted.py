"""How the published corrupted sets are laid out, and reading them."""

from collections.abc import Mapping
from dataclasses import dataclass

from shiftmatch.data.catalog import published
from shiftmatch.data.images import Labelled
from shiftmatch.data.inventory import Root, load
from shiftmatch.errors import FileFormatError, InputError
from shiftmatch.utils.files import data_folder

Severity = int | None
"""1 to 5; None where a suite has one published severity."""


@dataclass(frozen=True)
class Layout:
    """The clean set that a suite corrupts, its severities, the side of its images, and its files.

    `images` and `labels` are the array files of a corruption; without them each image is a JPEG of its own.
    """

    clean: str
    severities: tuple[Severity, ...]
    side: int
    images: str = ""
    labels: str = ""
    label_type: str = "int64"


LAYOUTS: Mapping[str, Layout] = {
    "mnist-c": Layout("mnist", (None,), 28, "{name}/test_images.npy", "{name}/test_labels.npy"),
    "cifar10-c": Layout("cifar10", (1, 2, 3, 4, 5), 32, "{name}.npy", "labels.npy", "uint8"),
    "imagenet-c": Layout("imagenet", (1, 2, 3, 4, 5), 224),
}


def layout_of(suite: str) -> Layout:
    """The layout of a suite.

    >>> layout_of("cifar10-c").clean
    'cifar10'
    """
    if suite not in LAYOUTS:
        raise InputError(f"There is no suite {suite!r}; there are {', '.join(LAYOUTS)}.")
    return LAYOUTS[suite]


def load_corrupted(suite: str, name: str, severity: Severity, *, root: Root = None) -> Labelled:
    """One corruption at one severity, from the suite's files."""
    layout = layout_of(suite)
    severities = layout.severities
    if severity not in severities:
        raise InputError(f"{suite} has no severity {severity}; it has {severities}.")
    if not layout.images:
        return load(suite, f"{name}/{severity}", root=root)
    whole = load(suite, name, root=root)
    each, rest = divmod(len(whole), len(severities))
    if rest:
        raise FileFormatError(
            f"{name} in {whole.source} has {len(whole):,} images, expected the same number for each of "
            f"{len(severities)} severities. Delete it and fetch {suite} again."
        )
    part = slice(severities.index(severity) * each, (severities.index(severity) + 1) * each)
    return Labelled(whole.images[part], whole.labels[part], f"{name} {severity or ''}".strip(), whole.source)


def is_stored(suite: str, name: str, severity: Severity, *, root: Root = None) -> bool:
    """Whether the suite's files of a corruption at a severity are in the data folder."""
    entry = published(suite)
    files = entry.splits[name if layout_of(suite).images else f"{name}/{severity}"]
    return all((data_folder(root) / entry.folder / file).exists() for file in files)
