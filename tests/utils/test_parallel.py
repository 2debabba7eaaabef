import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
import torch
from evaluated import Scaled, Tiny, tiny_suite
from torch import nn

import shiftmatch as sm
from shiftmatch.errors import InputError
from shiftmatch.evaluation.evaluate import evaluate
from shiftmatch.samplers.density import FromFunction
from shiftmatch.utils.parallel import mapping, parallel_map


def _threads_here_and_in_threads_to_come() -> tuple[int, int]:
    with ThreadPoolExecutor(1) as later:
        return torch.get_num_threads(), later.submit(torch.get_num_threads).result()


def test_each_thread_has_its_part_and_the_caller_all_of_them_afterwards(two_threads: None) -> None:
    assert parallel_map(lambda item: (item, torch.get_num_threads()), range(5)) == [(item, 1) for item in range(5)]
    assert _threads_here_and_in_threads_to_come() == (2, 2)


def test_items_are_worked_on_at_once(two_threads: None) -> None:
    both = Barrier(2, timeout=30)
    assert sorted(parallel_map(lambda item: both.wait(), range(4))) == [0, 0, 1, 1], "two at a time"


def test_one_item_has_all_threads(two_threads: None) -> None:
    assert parallel_map(lambda item: torch.get_num_threads(), [0]) == [2]
    assert parallel_map(lambda item: torch.get_num_threads(), []) == []


def test_an_error_comes_out_and_leaves_the_number_of_threads_alone(two_threads: None) -> None:
    with pytest.raises(ZeroDivisionError):
        parallel_map(lambda item: 1 / item, [1, 0, 2])
    assert _threads_here_and_in_threads_to_come() == (2, 2)


NET, LAYER, SUITE = Tiny(), nn.Linear(2, 2), tiny_suite()  # their initialisation switches gradients off, too


def fit() -> object:
    return sm.fit(NET, torch.rand(8, 3, 16, 16), progress=False)


def find_sites() -> object:
    return sm.sites(NET, torch.rand(2, 3, 16, 16))


def score() -> object:
    return evaluate({"net": sm.average([NET])}, SUITE, preprocess=Scaled(), progress=False)


def draw() -> object:
    def log_density(params: dict[str, torch.Tensor]) -> torch.Tensor:
        with torch.no_grad():
            return params["bias"].sum()

    sampler = sm.samplers.sgld(FromFunction(log_density), step_size=0.1)
    return sm.sample(sampler, LAYER, draws=1, generator=torch.Generator(), progress=False)


@pytest.mark.parametrize("task", [fit, find_sites, score, draw])
def test_an_interrupt_while_gradients_are_switched_off_leaves_them_on(
    task: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def enter(self: torch.no_grad) -> None:
        torch.set_grad_enabled(False)
        raise KeyboardInterrupt

    monkeypatch.setattr(torch.no_grad, "__enter__", enter)
    try:
        with pytest.raises(KeyboardInterrupt):
            task()
        assert torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


SCRIPT = """
import multiprocessing, signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell has it ignored
from shiftmatch.utils.parallel import mapping
with mapping(2) as run:
    list(run(abs, range(WARM)))
    results = run(time.sleep, [600, 600])
    print(*[child.pid for child in multiprocessing.active_children()], flush=True)
    list(results)
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")
def test_workers_do_not_outlive_a_killed_parent() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(sm.__file__).parents[1])}
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT.replace("WARM", "0")], env=environment, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(workers) == 2
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 300  # a busy machine takes long to start them
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, workers))


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_shared_comes_before_each_item(workers: int) -> None:
    with mapping(workers, 10, 2) as run:
        assert list(run(pow, [7, 9])) == [10**2 % 7, 10**2 % 9]


def test_what_cannot_be_sent_is_said_in_words() -> None:
    with pytest.raises(InputError, match=r"something cannot.*workers=1"), mapping(2, lambda: None):
        pass


def test_there_is_at_least_one_worker() -> None:
    with pytest.raises(InputError, match="not 0"), mapping(0):
        pass


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")
def test_an_interrupt_ends_the_workers_and_is_told_once() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(sm.__file__).parents[1])}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    started = SCRIPT.replace("WARM", "8")  # when the workers are up
    with subprocess.Popen([sys.executable, "-c", started], env=environment, start_new_session=True, **pipes) as parent:  # type: ignore[call-overload]
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(workers) == 2
        os.killpg(parent.pid, signal.SIGINT)  # as a terminal does: to all of them
        try:
            _, said = parent.communicate(timeout=300)
        finally:
            parent.kill()  # else leaving the block would wait for ever
    assert parent.returncode
    assert said.count(b"Traceback") == said.count(b"KeyboardInterrupt") == 1
    assert not any(map(alive, workers))


@pytest.mark.slow
def test_workers_can_be_started_from_any_thread_and_leave_its_interrupts_alone() -> None:
    """As servers and notebooks do: only the main thread may set what an interrupt does."""

    def work() -> list[tuple[int, int]]:
        with mapping(2, 10) as run:
            return list(run(divmod, [3, 4]))

    before = signal.getsignal(signal.SIGINT)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result() == [(3, 1), (2, 2)]
    assert work() == [(3, 1), (2, 2)]
    assert signal.getsignal(signal.SIGINT) is before


PAGE_FAULTS = """
import resource, sys, torch
from shiftmatch.utils.parallel import keep_freed_memory
if sys.argv[1:]:
    keep_freed_memory()
layers = [layer for _ in range(3) for layer in (torch.nn.Conv2d(16, 16, 1), torch.nn.ReLU())]
network, x = torch.nn.Sequential(*layers), torch.zeros(600, 16, 32, 32)  # 39 MB each
with torch.no_grad():
    network(x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    network(x)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_freed_memory_is_kept_for_the_next_tensors() -> None:
    usual, kept = (
        int(subprocess.check_output([sys.executable, "-c", PAGE_FAULTS, *words])) for words in ([], ["keep"])
    )
    if usual < 10_000:  # one for every 4 kB, unless pages are larger
        pytest.skip("memory comes in large pages here")
    assert kept < usual / 10
