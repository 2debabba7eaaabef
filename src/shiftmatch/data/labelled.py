"""A labelled set of images: the one value that every reader returns and every consumer takes."""

from dataclasses import dataclass, replace
from typing import Protocol, overload, runtime_checkable

from jaxtyping import Int64
from torch import Tensor

from shiftmatch.errors import FileFormatError, InputError


@runtime_checkable
class Gallery(Protocol):
    """Images that can be read one by one: a slice is again a gallery, a tensor of positions gives pixels (NCHW).

    A tensor, memory-mapped or not, is a gallery; so are image files, decoded only when their pixels are asked for.
    """

    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, index: slice, /) -> "Gallery": ...

    @overload
    def __getitem__(self, index: Tensor, /) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class Labelled:
    """Images (uint8, NCHW) with one label each, and where they came from.

    >>> import torch
    >>> digits = Labelled(torch.zeros(4, 1, 28, 28, dtype=torch.uint8), torch.arange(4), "digits", "made up")
    >>> digits.first(2)
    Labelled(digits: 2 images, from made up)
    """

    images: Gallery
    labels: Int64[Tensor, "n"]
    name: str
    source: str

    def __post_init__(self) -> None:
        if len(self.images) != len(self.labels):
            raise FileFormatError(
                f"{self.name} ({self.source}) has {len(self.images)} images but {len(self.labels)} labels; "
                f"its files do not belong together. Delete them and fetch the set again."
            )

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"Labelled({self.name}: {len(self):,} images, from {self.source})"

    def first(self, limit: int | None) -> "Labelled":
        """The first `limit` images, or all of them."""
        if limit is None:
            return self
        if limit < 1:
            raise InputError(f"limit must be at least 1 image, not {limit}.")
        return replace(self, images=self.images[:limit], labels=self.labels[:limit])
