"""Maps of one position have no frequencies beside the mean."""

import torch
from torch import nn
from torch.testing import assert_close

import shiftmatch as sm


def test_a_map_of_one_position_is_matched_as_its_channels_are() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 8), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4, 2)).eval()
    x = torch.randn(60, 3, 8, 8)
    robust = sm.match(net, sm.fit(net, x, progress=False), prior_images=4)
    assert_close(robust(x), net(x), rtol=1e-3, atol=1e-3)
    program = torch.export.export(robust, (x[:2],), dynamic_shapes=(({0: torch.export.Dim.DYNAMIC},),), strict=False)
    empty = [node for node in program.graph.nodes if 0 in getattr(node.meta.get("val"), "shape", ())]
    assert not empty
