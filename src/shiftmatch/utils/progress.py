"""One look for every progress bar: on standard error, only in a terminal, gone when done."""

import os
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

T = TypeVar("T")


def track(items: Iterable[T], label: str, *, total: int | None = None, show: bool = True) -> Iterator[T]:
    """Iterate over `items` with a bar that says what is done, how far it is and how long it will take.

    There is none where the environment has SHIFTMATCH_QUIET.

    >>> list(track([1, 2, 3], "counting"))
    [1, 2, 3]
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if total is None and isinstance(items, Sized):
        total = len(items)
    visible = show and console.is_terminal and not os.environ.get("SHIFTMATCH_QUIET")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not visible) as bar:
        yield from bar.track(items, total=total, description=label)
