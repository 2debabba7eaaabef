from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from shiftmatch.errors import FileFormatError
from shiftmatch.samplers.params import Params
from shiftmatch.samplers.storage import flatten, unflatten


class State(NamedTuple):
    params: Params
    energy: Tensor


def test_a_state_survives_being_flattened() -> None:
    state = State({"a.b": torch.randn(2), "c": torch.randn(3)}, torch.tensor(1.5))
    flat = flatten(state)
    assert flat.keys() == {"params/a.b", "params/c", "energy"}
    back = unflatten(flat, state)
    assert torch.equal(back.params["a.b"], state.params["a.b"])
    assert back.energy == 1.5


def test_a_state_of_another_sampler_is_refused() -> None:
    state = State({"a": torch.zeros(1)}, torch.zeros(()))
    with pytest.raises(FileFormatError, match="params/a"):
        unflatten({"energy": torch.zeros(())}, state)
