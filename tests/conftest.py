"""Settings for all tests."""

import os
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

# Some virtual machines announce AMX and stop a process that uses it: a half-precision layer of plain PyTorch does.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
torch.set_num_threads(1)  # the tests run in several processes
settings.register_profile("shiftmatch", deadline=None, derandomize=True)
settings.load_profile("shiftmatch")


@pytest.fixture
def two_threads() -> Iterator[None]:
    """PyTorch with two threads."""
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slow ones first: what is left for the end is short, so that all workers end at about the same time."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
