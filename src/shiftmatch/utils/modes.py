"""Modes of PyTorch that belong to the caller."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


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
