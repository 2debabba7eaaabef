"""Work shared between threads, or between processes; settings of PyTorch and memory; progress bars."""

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from shiftmatch.errors import InputError

T = TypeVar("T")
R = TypeVar("R")

Map = Callable[[Callable[..., Any], Iterable[Any]], Iterator[Any]]

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
"""Settings of glibc's mallopt: how much free memory is given back, and how many allocations have pages of their own."""

_shared: tuple[Any, ...] = ()
"""In a worker process: what every call gets before its item."""


def parallel_map(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """[work(item) for item in items], as many at once as PyTorch has threads.

    Small operations gain little from several threads each, and LAPACK's decompositions nothing.

    >>> parallel_map(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    threads = torch.get_num_threads()
    workers = min(threads, len(items))
    if workers <= 1:
        return list(map(work, items))
    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads // workers,)) as pool:
            return list(pool.map(work, items))
    finally:
        torch.set_num_threads(threads)  # each has its own number, but threads to come begin with the last one set


@contextmanager
def mapping(workers: int, *shared: Any) -> Iterator[Map]:
    """`map`, or its like over so many worker processes; every call gets what is `shared`, sent once, before its item.

    >>> with mapping(1, "number") as run:
    ...     list(run(print, ["one"]))
    number one
    [None]
    """
    if workers < 1:
        raise InputError(f"workers must be 1 or more, not {workers}.")
    if workers == 1:
        yield lambda function, items: map(partial(function, *shared), items)
        return
    # spawn: forking a process whose torch threads are at work may hang
    context, given = multiprocessing.get_context("spawn"), (_packed(shared), str(Path.cwd()))
    pool = ProcessPoolExecutor(workers, context, initializer=_start, initargs=given)
    try:
        yield lambda function, items: _submit(pool, function, items)
    except KeyboardInterrupt:
        for process in list((pool._processes or {}).values()):  # what they were at is lost; what they wrote is whole
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def keep_freed_memory() -> None:
    """Let this process keep the memory of freed tensors for the next ones, where its allocator is that of glibc.

    Tensors over 32 MB would else go back to the system, and each new one costs a page fault for every 4 kB. For
    processes of our own only: the command line and worker processes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, -1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch work in one thread, as worker processes do: then what it computes does not depend on their number.

    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def restoring_grad_mode() -> Iterator[None]:
    """Afterwards gradients are recorded, or not, as before; also a decorator.

    Ctrl-C in the middle of entering `torch.no_grad()`, of an optimiser's step or of a deep copy would leave it changed.

    >>> with restoring_grad_mode():
    ...     _ = torch.no_grad().__enter__()
    >>> torch.is_grad_enabled()
    True
    """
    before = torch.is_grad_enabled()
    try:
        yield
    finally:
        torch.set_grad_enabled(before)


def _submit(pool: ProcessPoolExecutor, function: Callable[..., Any], items: Iterable[Any]) -> Iterator[Any]:
    """Start the workers so that only their parent handles Ctrl-C, also while they are starting."""
    if threading.current_thread() is not threading.main_thread():
        return pool.map(partial(_call, function), items)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # which processes inherit
    try:
        return pool.map(partial(_call, function), items)
    finally:
        signal.signal(signal.SIGINT, before)


def _packed(shared: tuple[Any, ...]) -> bytes:
    """By value: sharing memory would take a file handle for every tensor, and let processes change each other's."""
    try:
        return pickle.dumps(shared)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            f"Several workers need everything in a form that can be sent to them, and something cannot: {error}. "
            "Use functions and classes that are defined in a module, not inside of functions; or workers=1."
        ) from error


def _start(packed: bytes, folder: str) -> None:
    global _shared  # noqa: PLW0603  a worker process has one job
    torch.set_num_threads(1)
    keep_freed_memory()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    sys.path.insert(0, folder)  # the user's own modules
    _shared = pickle.loads(packed)


def _call(function: Callable[..., Any], item: Any) -> Any:
    return function(*_shared, item)


def _leave_with_parent() -> None:
    """A killed parent cannot tell its workers to stop; they would wait for work for ever."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


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
