"""Processes that torchrun has started: their ranks, their shares of the work, and a barrier with a heartbeat."""

import atexit
import os
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from itertools import count
from threading import Event, Thread
from typing import Any, TypeVar

import torch
from torch import distributed

from shiftmatch.errors import ProcessError

T = TypeVar("T")
R = TypeVar("R")

TIMEOUT = 60.0
"""Seconds without a heartbeat of another process after which one that waits for it stops with an error."""

BEAT = "shiftmatch/beat/{}"
"""Where the process of a rank counts its heartbeats."""

_barriers, _left = count(), Event()
_timeout: float | None = None


def start_processes(*, timeout: float = TIMEOUT, backend: str | None = None) -> tuple[int, int]:
    """Join the processes that torchrun has started; the rank of this one and how many there are.

    Args:
        timeout: seconds after which a process without a heartbeat makes the others stop with an error; it may work
            as long as it likes.
        backend: "nccl" for GPUs, "gloo" for all else; chosen unless given.

    >>> start_processes()  # without torchrun there is one
    (0, 1)
    """
    if "WORLD_SIZE" not in os.environ:
        return 0, 1
    if not distributed.is_initialized():
        distributed.init_process_group(
            backend or ("nccl" if torch.cuda.is_available() else "gloo"), timeout=timedelta(seconds=timeout)
        )
        global _timeout  # noqa: PLW0603  a process has one group
        _timeout = timeout
        Thread(target=_beat, args=(timeout / 10,), daemon=True).start()
        atexit.register(_leave)
    return rank_and_count()


def rank_and_count() -> tuple[int, int]:
    """The rank of this process, and how many there are; 0 and 1 without torch.distributed."""
    ready = distributed.is_available() and distributed.is_initialized()
    return (distributed.get_rank(), distributed.get_world_size()) if ready else (0, 1)


def share(items: Sequence[Any]) -> Sequence[Any]:
    """The items that are this process's to work on: every n-th of n processes.

    Args:
        items: the same on every process: batches, members, files.

    >>> share([1, 2, 3])
    [1, 2, 3]
    """
    rank, total = rank_and_count()
    return items[rank::total]


def map_over_processes(work: Callable[[Sequence[T]], Iterable[R]], items: Sequence[T]) -> list[R]:
    """What `work` makes of the items, each process given its share; all of them get everything, in order.

    >>> map_over_processes(lambda mine: map(abs, mine), [-1, 2, -3])
    [1, 2, 3]
    """
    found = gather_objects(list(work(share(items))))
    order = sorted((place, rank) for rank, part in enumerate(found) for place in range(len(part)))
    return [found[rank][place] for place, rank in order]


def gather_objects(value: T) -> list[T]:
    """The values of all processes, in every process.

    >>> gather_objects("one")
    ['one']
    """
    _, total = rank_and_count()
    if total == 1:
        return [value]
    barrier()
    found: list[Any] = [None] * total
    distributed.all_gather_object(found, value)
    return found


def barrier() -> None:
    """Wait until every process is here, for as long as all of them have a heartbeat.

    A group that `start_processes` has not made has no heartbeats: its own timeout counts.
    """
    _, total = rank_and_count()
    if total == 1 or _timeout is None:
        return
    store, place = distributed.distributed_c10d._get_default_store(), f"shiftmatch/barrier/{next(_barriers)}"
    last: dict[int, tuple[int, float]] = {}
    try:
        here = store.add(place, 1)
        while here < total:
            for rank in range(total):
                beat, now = store.add(BEAT.format(rank), 0), time.monotonic()
                if beat != last.get(rank, (None, 0))[0]:
                    last[rank] = beat, now
                elif now - last[rank][1] > _timeout:
                    raise ProcessError(f"Process {rank} has had no heartbeat for {_timeout:.0f} s: it has died.")
            time.sleep(0.05)
            here = store.add(place, 0)
    except distributed.DistError as error:
        raise ProcessError("The first process has died, or cannot be reached.") from error


def _beat(seconds: float) -> None:
    """The heartbeat of this process."""
    store, rank = distributed.distributed_c10d._get_default_store(), distributed.get_rank()
    while not _left.wait(seconds):
        try:
            store.add(BEAT.format(rank), 1)
        except distributed.DistError:  # the process with the store has ended
            return


def _leave() -> None:
    _left.set()
    if distributed.is_initialized():
        distributed.destroy_process_group()
