"""Work shared between threads, each of which has its part of PyTorch's own."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")


def shared(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """[work(item) for item in items], as many at once as PyTorch has threads.

    Small operations gain little from several threads each, and LAPACK's decompositions nothing.

    >>> shared(abs, [-1, 2, -3])
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
