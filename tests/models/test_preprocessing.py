import pytest
import torch
from torch import nn
from torch.testing import assert_close

from shiftmatch.errors import InputError
from shiftmatch.models import Architecture, Preprocessing, names
from shiftmatch.models.preprocessing import channel_moments, variance_ratio


def test_pixels_are_normalised_channel_by_channel() -> None:
    prepare = Preprocessing((0.5, 0.4, 0.3), (0.2,), size=32)
    x = torch.full((1, 3, 1, 1), 255, dtype=torch.uint8)
    assert_close(prepare(x).flatten(), torch.tensor([2.5, 3.0, 3.5]))
    assert_close(prepare(x / 255), prepare(x))


def test_a_wrong_number_of_means_is_said_and_not_broadcast() -> None:
    for prepare in (Preprocessing((0.5, 0.5)), Preprocessing(std=(1.0, 1.0, 1.0, 1.0))):
        with pytest.raises(InputError, match="one number, or one per channel"):
            prepare(torch.zeros(1, 3, 2, 2))
    with pytest.raises(InputError, match="1 channels"):
        Preprocessing((0.5, 0.5, 0.5))(torch.zeros(2, 1, 4, 4))
    with pytest.raises(InputError, match="above 0"):
        Preprocessing(std=(0.0,))


@pytest.mark.parametrize("name", names())
def test_every_network_knows_its_preprocessing(name: str) -> None:
    known = Architecture(name).preprocessing
    assert known.size
    assert Preprocessing.from_dict(known.as_dict()) == known
    network = Architecture(name).build().eval()
    with torch.no_grad():
        network(known(torch.zeros(1, 1 if known.grey else 3, known.size, known.size, dtype=torch.uint8)))


def test_settings_change_it() -> None:
    known = Architecture("lenet", {"channels": 3, "size": 32}).preprocessing
    assert (known.size, known.grey) == (32, False)


def test_values_of_another_kind_are_no_preprocessing() -> None:
    assert Preprocessing.from_dict({"made by": "hand"}) is None
    assert Preprocessing.from_dict({"mean": [0.5], "std": [1.0], "later": 1}) == Preprocessing((0.5,))


def test_moments_of_the_channels() -> None:
    x = torch.randn(50, 2, 8, 8) * torch.tensor([1.0, 3.0])[:, None, None] + 2
    mean, std = channel_moments(x)
    assert mean == pytest.approx([2, 2], abs=0.3)
    assert std == pytest.approx([1, 3], rel=0.1)


def test_the_first_batchnorm_tells_inputs_of_another_scale() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, momentum=None), nn.ReLU(), nn.BatchNorm2d(4))
    network(x := torch.randn(64, 3, 8, 8))  # in training mode: running statistics are measured
    network.eval()
    assert variance_ratio(network, x) == pytest.approx(1, rel=0.1)
    assert variance_ratio(network, x / 4) == pytest.approx(1 / 16, rel=0.1)
    assert not any(layer._forward_pre_hooks for layer in network.modules())
    assert variance_ratio(nn.Conv2d(3, 4, 3), x) is None
