import pytest
import torch
from torch import nn

from shiftmatch.models.init import initialise


def test_weights_have_the_scale_of_their_fan_in_and_the_seed_decides() -> None:
    layer = nn.Conv2d(16, 64, 5)
    initialise(layer, torch.Generator().manual_seed(0), gain=2.0)
    nominal = (2.0 / 400) ** 0.5
    assert layer.weight.abs().max() <= 2 * nominal
    assert layer.weight.std().item() == pytest.approx(0.8796 * nominal, rel=0.02)
    again = initialise(nn.Conv2d(16, 64, 5), torch.Generator().manual_seed(0), gain=2.0)
    assert torch.equal(again.state_dict()["weight"], layer.weight)
