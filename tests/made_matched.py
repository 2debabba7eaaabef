"""A small network with its statistics, for tests of what can be done with a matched one."""

from typing import Any

import torch
from torch import Tensor, nn

import shiftmatch as sm


def small_network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    layers = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 10)
    )
    layers[1].running_mean = torch.randn(4)
    layers[1].running_var = torch.rand(4) + 0.5
    return layers.eval()


def images(count: int, seed: int = 1) -> Tensor:
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


def corrupted(count: int, seed: int = 2) -> Tensor:
    return 0.5 * images(count, seed) + 0.3


def matched(**settings: Any) -> sm.MatchedModel:
    net = small_network()
    return sm.match(net, sm.fit(net, images(100), progress=False, **settings), prior_images=16)
