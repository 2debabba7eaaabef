"""A small network and its statistics, which several files look at."""

import pytest
import torch
from networks import InPlaceNet
from randomness import maps

import shiftmatch as sm


@pytest.fixture
def net() -> InPlaceNet:
    torch.manual_seed(0)
    return InPlaceNet().double().eval()


@pytest.fixture
def statistics(net: InPlaceNet) -> sm.Statistics:
    return sm.fit(net, maps(400, 3, 8, 8), progress=False)
