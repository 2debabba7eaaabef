"""Calls that take turns in one thread, and meet wherever something is needed from all of them."""

from collections.abc import Callable, Hashable, Sequence
from contextvars import copy_context
from typing import Any, NamedTuple, TypeVar

import torch
from greenlet import getcurrent, greenlet

T = TypeVar("T")
R = TypeVar("R")


class DivergedError(Exception):
    """Some calls have come elsewhere than others, or one has changed PyTorch's mode for all: they cannot go on."""


class _Part(NamedTuple):
    place: Hashable
    value: Any
    whole: Callable[[Sequence[Any]], Any]


class Lockstep:
    """Runs each call until it needs something from all of them, then the next; so on until all have ended.

    They share one thread, and with it the threads of PyTorch, which stay awake; an error in one, or in what
    is found for all, ends them all.

    >>> lockstep = Lockstep()
    >>> lockstep.run([lambda i=i: lockstep.together("sum", i, sum) for i in range(3)])
    [3, 3, 3]
    """

    def __init__(self) -> None:
        self._mode = _mode()

    def together(self, place: Hashable, part: T, whole: Callable[[Sequence[T]], R]) -> R:
        """whole(the parts of all calls, in their order), once every call has come to this place."""
        if _mode() != self._mode:
            raise DivergedError
        answer: R = getcurrent().parent.switch(_Part(place, part, whole))
        return answer

    def run(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """What the calls return."""
        runs = [greenlet(call) for call in calls]
        for run in runs:
            run.gr_context = copy_context()
        try:
            said = [run.switch() for run in runs]
            while not all(run.dead for run in runs):
                try:
                    answer = _answer(said)
                except Exception as error:
                    runs[0].throw(error)  # where it can be told what it is about
                    raise
                said = [run.switch(answer) for run in runs]
            return said
        finally:
            for run in runs:
                run.throw()  # ends a call that still waits; one that has ended does not notice


def _answer(said: Sequence[Any]) -> Any:
    waiting = [part for part in said if isinstance(part, _Part)]
    if len(waiting) < len(said) or len({part.place for part in waiting}) > 1:
        raise DivergedError
    return waiting[0].whole([part.value for part in waiting])


def _mode() -> tuple[object, ...]:
    """What a call could change for all others."""
    autocast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), autocast, torch.get_default_dtype()
