import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import shiftmatch
from shiftmatch.errors import InputError
from shiftmatch.utils.parallel import mapping

SCRIPT = """
import multiprocessing, time
from shiftmatch.utils.parallel import mapping
with mapping(2) as run:
    results = run(time.sleep, [600, 600])
    print(*[child.pid for child in multiprocessing.active_children()], flush=True)
    list(results)
"""

# A background shell starts its commands with interrupts ignored, and Python leaves it at that.
STARTED = """
import multiprocessing, signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from shiftmatch.utils.parallel import mapping
with mapping(2) as run:
    list(run(abs, range(8)))  # they are up
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
    environment = {**os.environ, "PYTHONPATH": str(Path(shiftmatch.__file__).parents[1])}
    with subprocess.Popen([sys.executable, "-c", SCRIPT], env=environment, stdout=subprocess.PIPE) as parent:
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
    environment = {**os.environ, "PYTHONPATH": str(Path(shiftmatch.__file__).parents[1])}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", STARTED], env=environment, start_new_session=True, **pipes) as parent:  # type: ignore[call-overload]
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
