"""Clean training images for the methods that measure statistics: prepared batch by batch, as often as needed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import final, overload

import torch
from jaxtyping import Int64
from torch import Tensor

from shiftmatch.data.corrupted import layout_of
from shiftmatch.data.image_set import open_images
from shiftmatch.data.images import ImageSource
from shiftmatch.data.inventory import load
from shiftmatch.evaluation.suites import Suite
from shiftmatch.models.preprocessing import Preprocessing
from shiftmatch.shapes import Images

BATCH = 200
"""Training images per batch, at most."""


@final
@dataclass(frozen=True, eq=False)
class TrainingBatches(Sequence[Tensor]):
    """Batches of inputs; one is prepared when it is asked for, and not kept."""

    images: ImageSource
    preprocess: Preprocessing
    parts: Sequence[Int64[Tensor, "_"]]

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[Images]:
        return (self[number] for number in range(len(self)))

    @overload
    def __getitem__(self, which: int) -> Images: ...
    @overload
    def __getitem__(self, which: slice) -> "TrainingBatches": ...
    def __getitem__(self, which: int | slice) -> "Images | TrainingBatches":
        if isinstance(which, slice):
            return replace(self, parts=self.parts[which])
        return self.preprocess(self.images[self.parts[which]])


def training_batches(
    suite: Suite, preprocess: Preprocessing, images: int, *, path: Path | None = None
) -> TrainingBatches:
    """So many clean training images for a suite: the first of its own training set, or a mix of those in `path`."""
    layout = layout_of(suite.name)
    if path is None:
        train = load(layout.clean, "train", root=suite.root, limit=images)
        gallery, order = train.images, torch.arange(len(train))
    else:
        grey = suite.clean.images[torch.arange(1)].shape[1] == 1
        own = open_images(path, replace(preprocess, size=layout.side, grey=grey))
        # Folders are often sorted by class, and the first images would then be of one class.
        order = torch.randperm(len(own), generator=torch.Generator().manual_seed(0))[:images]
        gallery = own.images
    return TrainingBatches(gallery, preprocess, order.tensor_split(ceil(len(order) / BATCH)))
