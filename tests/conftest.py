"""Settings for all tests."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)  # the tests run in several processes
settings.register_profile("shiftmatch", deadline=None, derandomize=True)
settings.load_profile("shiftmatch")


@pytest.fixture
def two_threads() -> Iterator[None]:
    """PyTorch with two threads."""
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)
