"""A sequence whose items are built when they are asked for, and not kept."""

from collections.abc import Callable, Iterator, Sequence
from operator import index
from typing import Generic, TypeVar, final, overload

from shiftmatch.errors import InputError

T = TypeVar("T")


@final
class LazySequence(Sequence[T], Generic[T]):
    """`length` items; `build(i)` makes item i, from 0 to length - 1, every time that it is asked for.

    Iterating holds no item while the next one is built, so that there is one in memory at a time. A slice is again a
    LazySequence, and builds nothing. Two sequences are equal only if they are one.

    >>> squares = LazySequence(5, lambda i: i * i)
    >>> squares[-1], list(squares[1:4]), len(squares[::2])
    (16, [1, 4, 9], 3)
    """

    def __init__(self, length: int, build: Callable[[int], T]) -> None:
        if length < 0:
            raise InputError(f"A sequence has 0 items or more, not {length}.")
        self.items, self.build = range(length), build

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[T]:
        for item in self.items:
            yield self.build(item)  # unlike the inherited one, this has no name for the item that was yielded

    @overload
    def __getitem__(self, which: int) -> T: ...
    @overload
    def __getitem__(self, which: slice) -> "LazySequence[T]": ...
    def __getitem__(self, which: int | slice) -> "T | LazySequence[T]":
        if isinstance(which, slice):
            part = LazySequence(0, self.build)
            part.items = self.items[which]
            return part
        if not -len(self) <= index(which) < len(self):
            raise IndexError(f"There are {len(self)} items, counted from 0; item {which} is not one of them.")
        return self.build(self.items[which])

    def __repr__(self) -> str:
        return f"LazySequence({len(self)} items)"
