"""Ctrl-C at random moments of a task, and what it might leave behind."""

import random
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial

import pytest
import torch
from torch import nn

REPEATS, MAX_ATTEMPTS = 50, 200


def interrupted(
    tasks: Sequence[Callable[[], object]], net: nn.Module, *, times: int = 50, within: float = 0.02
) -> None:
    """Interrupt the tasks in turn, so many times in all: each time the network and the process are as before."""
    if sys.gettrace() is not None:
        pytest.skip("an interrupt inside the tracer of a coverage run would leave its lock taken, for ever")
    before, moments, count = state(net), random.Random(0), 0
    for attempt in range(MAX_ATTEMPTS):
        if count == times:
            return
        rung: list[int] = []
        previous = signal.signal(signal.SIGALRM, partial(_interrupt, rung))
        try:
            signal.setitimer(signal.ITIMER_REAL, moments.uniform(0.0005, within))
            for _ in range(REPEATS):
                tasks[attempt % len(tasks)]()
        except (KeyboardInterrupt, ValueError):  # inside a library in C an interrupt may come out as its own error
            if not rung:
                raise
            count += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
        assert state(net) == before
    raise AssertionError(f"the tasks were interrupted {count} times only")


def state(net: nn.Module) -> tuple[object, ...]:
    """The mode stack, flags, threads, and the modes, hooks and weights of a network."""
    modules = [
        (m.training, len(m._forward_hooks), len(m._forward_pre_hooks), "forward" in vars(m)) for m in net.modules()
    ]
    process = torch._C._len_torch_function_stack(), torch.backends.mkldnn.enabled, torch.is_grad_enabled()
    weights = [(name, tensor.data_ptr(), tensor.sum().item()) for name, tensor in net.state_dict().items()]
    return *process, torch.get_num_threads(), torch.is_autocast_enabled("cpu"), modules, weights


def _interrupt(rung: list[int], number: int, frame: object) -> None:
    rung.append(number)
    raise KeyboardInterrupt
