"""A matched network and the plain one, called from several threads at once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import torch
from interrupts import interrupted
from networks import FusedNet, InPlaceNet, RawNet, SharedNet
from randomness import maps
from torch import Tensor, nn
from torch.testing import assert_close

import shiftmatch as sm

THREADS, CALLS = 8, 200


def matched(build: Callable[[], nn.Module], **settings: Any) -> tuple[nn.Module, sm.MatchedModel, Tensor]:
    torch.manual_seed(0)
    net = build().eval()
    x = maps(24, 3, 2, 2).float() if build is RawNet else maps(24, 3, 8, 8).float()
    return net, sm.match(net, sm.fit(net, x, progress=False, **settings), prior_images=16), x


def called_at_once(calls: list[partial[Tensor]], each: int = CALLS) -> list[Tensor]:
    """Without gradients, as the calls that they are compared with: every thread has a gradient mode of its own."""
    with ThreadPoolExecutor(THREADS, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return list(pool.map(torch.no_grad()(lambda call: call()), calls * (THREADS * each // len(calls))))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "batchnorm", "calls_each"),
    [(InPlaceNet, "eval", CALLS), (SharedNet, "eval", 40), (FusedNet, "batch", 40), (RawNet, "eval", 40)],
)
def test_threads_get_what_serial_calls_get(build: Callable[[], nn.Module], batchnorm: str, calls_each: int) -> None:
    net, robust, x = matched(build, batchnorm=batchnorm)
    with torch.no_grad():
        batches = [x, 2 * x, x[:20] - 1, -x]
        calls = [partial(model, batch) for model in (robust, net) for batch in batches]
        expected = [call() for call in calls]
        found = called_at_once(calls, calls_each)
        assert all(torch.equal(one, expected[i % len(calls)]) for i, one in enumerate(found))


@pytest.mark.slow
def test_two_matched_networks_over_one_do_not_disturb_each_other_or_it() -> None:
    net, first, x = matched(InPlaceNet)
    second = sm.match(net, sm.fit(net, 3 * x + 1, covariance=sm.ChannelMoments, progress=False), prior_images=2)
    adapted = sm.adapt_batchnorm(net)
    with torch.no_grad():
        calls = [partial(model, 2 * x) for model in (first, second, adapted, net)]
        expected = [call() for call in calls]
        assert all(torch.equal(one, expected[i % 4]) for i, one in enumerate(called_at_once(calls)))


def _with_threads(count: int) -> tuple[Tensor, Tensor]:
    """What is measured, and what is predicted, with so many threads of PyTorch's own."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        _, robust, x = matched(InPlaceNet)
        measured = torch.cat([tensor.double().flatten() for tensor in robust.statistics.tensors().values()])
        with torch.no_grad():
            return measured, robust(2 * x)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_results_are_the_same_bits_for_one_number_of_threads_and_round_otherwise_for_others(count: int) -> None:
    (measured, predicted), again, other = _with_threads(count), _with_threads(count), _with_threads(count % 3 + 1)
    assert torch.equal(measured, again[0])
    assert torch.equal(predicted, again[1])
    assert_close(measured, other[0], rtol=1e-5, atol=1e-6)
    assert_close(predicted, other[1], rtol=1e-4, atol=1e-5)


def test_data_parallel_is_an_ordinary_wrapper() -> None:
    _, robust, x = matched(InPlaceNet)
    assert_close(nn.DataParallel(robust)(x), robust(x))


@pytest.mark.filterwarnings("ignore:TF32")
def test_a_flag_that_a_forward_pass_switches_comes_back() -> None:
    class Switching(InPlaceNet):
        def forward(self, x: Tensor) -> Tensor:
            with torch.backends.mkldnn.flags(enabled=False):
                return super().forward(x)

    _, robust, x = matched(Switching)
    before = torch.backends.mkldnn.enabled
    robust(x.repeat(20, 1, 1, 1))
    assert torch.backends.mkldnn.enabled == before


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # an interrupt inside a callback
@pytest.mark.parametrize("build", [RawNet, InPlaceNet])
def test_an_interrupt_at_any_moment_leaves_nothing_behind(build: Callable[[], nn.Module]) -> None:
    net, robust, x = matched(build)
    statistics = robust.statistics
    tasks: list[Callable[[], object]] = [
        lambda: sm.fit(net, x, progress=False),
        partial(robust, 2 * x),
        lambda: sm.match(net, statistics)(x),
        lambda: sm.sites(net, x),
    ]
    interrupted(tasks, net)
    with torch.no_grad():
        assert_close(robust(x), sm.match(net, statistics, prior_images=16)(x))
