"""One, two and four processes with unequal shares: what one process gives."""

import os
import socket
import subprocess
import sys
import time
from functools import partial
from operator import add
from pathlib import Path

import pytest
import torch
from made_matched import corrupted, images, matched, small_network
from torch.testing import assert_close

import shiftmatch as sm

WORK = """
import torch, shiftmatch as sm
from made_matched import corrupted, images, small_network
rank, count = sm.start_processes(timeout=30)
torch.set_num_threads(1)
exact = sm.fit(small_network().double(), images(32).double().split(sizes)[rank], across_processes=True, progress=False)
net = small_network()
statistics = sm.fit(net, images(32).split(sizes)[rank], across_processes=True, progress=False)
robust = sm.match(net, statistics, across_processes=True)
average = sm.average([small_network(seed) for seed in range(5)], across_processes=True)
found = exact.tensors(torch.float64)
found["matched"] = robust(corrupted(32).split(sizes)[rank])
found["average"] = average(corrupted(4))
torch.save(found, f"{folder}/{rank}.pt")
"""

DIE = """
import os, torch, shiftmatch as sm
from made_matched import images, small_network
rank, _ = sm.start_processes(timeout=20)
if rank == 1:
    os._exit(3)
sm.fit(small_network(), images(8), across_processes=True, progress=False)
"""

SLOW = """
import time, shiftmatch as sm
from made_matched import images, small_network
rank, _ = sm.start_processes(timeout=4)
time.sleep(9 * rank)  # longer than the timeout, and alive
sm.fit(small_network(), images(8), across_processes=True, progress=False)
"""


def start(code: str, count: int, **names: object) -> list[subprocess.Popen[str]]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    settings = "".join(f"{name} = {value!r}\n" for name, value in names.items())
    paths = [str(Path(__file__).parents[1]), *sys.path]
    code = f"import sys; sys.path[:0] = {paths!r}\n{settings}{code}"
    common = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    places = [{**os.environ, **common, "RANK": str(rank)} for rank in range(count)]
    command = [sys.executable, "-c", code]
    return [subprocess.Popen(command, env=place, stderr=subprocess.PIPE, text=True) for place in places]


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[32], [7, 25], [3, 9, 19, 1]], ids=str)
def test_unequal_shares_give_what_one_process_gives(sizes: list[int], tmp_path: Path) -> None:
    for process in start(WORK, len(sizes), sizes=sizes, folder=str(tmp_path)):
        errors = process.communicate(timeout=200)[1]
        assert process.returncode == 0, errors[-2000:]
    net, double = small_network(), small_network().double()  # features in single precision depend on the batch size
    exact = sm.fit(double, images(32).double(), progress=False)
    robust, average = (
        sm.match(net, sm.fit(net, images(32), progress=False)),
        sm.average([small_network(seed) for seed in range(5)]),
    )
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in range(len(sizes))]
    for name, tensor in exact.tensors(torch.float64).items():
        for one in found:
            assert_close(one[name], tensor, rtol=1e-10, atol=1e-10)
    assert_close(torch.cat([one["matched"] for one in found]), robust(corrupted(32)), rtol=0, atol=1e-6)
    assert_close(found[-1]["average"], average(corrupted(4)), rtol=0, atol=1e-6)


@pytest.mark.slow
def test_a_process_that_dies_stops_the_others_with_an_error_within_a_minute() -> None:
    processes = start(DIE, 2)
    processes[1].communicate(timeout=200)
    died = time.monotonic()
    processes[0].communicate(timeout=60)
    assert time.monotonic() - died < 60
    assert [process.returncode for process in processes] == [1, 3]


@pytest.mark.slow
def test_a_process_that_works_for_long_is_waited_for() -> None:
    for process in start(SLOW, 2):
        errors = process.communicate(timeout=200)[1]
        assert process.returncode == 0, errors[-2000:]


def test_map_and_reduce_on_any_cluster_is_a_sum_of_statistics() -> None:
    bag = pytest.importorskip("dask.bag")  # Ray and Spark have the same two words
    net, x = small_network().double(), images(32).double()
    parts = bag.from_sequence(x.split([7, 5, 11, 9]), npartitions=2)
    total = parts.map(partial(sm.fit, net, progress=False)).fold(add).compute(scheduler="threads")
    whole = sm.fit(net, x, progress=False)
    assert total.images == 32
    for name, tensor in whole.tensors(torch.float64).items():
        assert_close(total.tensors(torch.float64)[name], tensor, rtol=1e-10, atol=1e-10)


def test_one_process_without_a_group_is_as_before() -> None:
    robust = matched()
    same = sm.fit(small_network(), images(100), across_processes=True, progress=False)
    assert_close(same.tensors()["input|0.0|mean"], robust.statistics.tensors()["input|0.0|mean"])
