import pytest
import torch
from torch.testing import assert_close

from shiftmatch.errors import InputError
from shiftmatch.models import Architecture, Preprocessing, names


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
