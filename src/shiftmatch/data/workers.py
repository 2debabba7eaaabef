"""Mapping a function over items in this process or in several."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch

from shiftmatch.errors import InputError

Map = Callable[[Callable[[Any], None], Iterable[Any]], Iterator[None]]


@contextmanager
def mapping(workers: int) -> Iterator[Map]:
    """`map`, or its like over so many worker processes.

    >>> with mapping(1) as run:
    ...     list(run(print, ["one"]))
    one
    [None]
    """
    if workers < 1:
        raise InputError(f"workers must be 1 or more, not {workers}.")
    if workers == 1:
        yield map
        return
    # spawn: forking a process whose torch threads are at work may hang
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_start)
    try:
        yield pool.map
    finally:
        pool.shutdown(cancel_futures=True)


def _start() -> None:
    torch.set_num_threads(1)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """A killed parent cannot tell its workers to stop; they would wait for work for ever."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)
