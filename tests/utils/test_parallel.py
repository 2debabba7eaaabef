import platform
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
from evaluated import Scaled, Tiny, tiny_suite
from torch import nn

import shiftmatch as sm
from shiftmatch.evaluation.evaluate import evaluate
from shiftmatch.samplers.density import FromFunction
from shiftmatch.utils.parallel import parallel_map


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


PAGE_FAULTS = """
import resource, torch
from shiftmatch.utils.parallel import keep_freed_memory
keep_freed_memory()
def allocate():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.empty(16 << 20).fill_(1.0)  # 64 MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(allocate(), allocate())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_freed_memory_is_kept_for_the_next_tensors() -> None:
    first, second = map(int, subprocess.check_output([sys.executable, "-c", PAGE_FAULTS], text=True).split())
    if first < 10_000:  # one for every 4 kB, unless pages are larger
        pytest.skip("memory comes in large pages here")
    assert second < first / 10
