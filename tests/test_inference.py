from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from shiftmatch.averaging import average
from shiftmatch.errors import InputError
from shiftmatch.inference import METHODS, Inference

STEP = {"hmc": 0.01, "sgld": 0.3, "sghmc": 0.03, "ensemble": 0.1}


@pytest.fixture
def data() -> tuple[Tensor, Tensor]:
    x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    return x, (x.sum(-1) > 0).long()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns(method: str, data: tuple[Tensor, Tensor]) -> None:
    torch.manual_seed(0)
    how = Inference(method, 4, 6, STEP[method], trajectory=0.3, steps=30, batch=50, weight_decay=0.1)
    network = nn.Linear(2, 2)
    posterior = how.run(network, data)
    assert len(posterior) == 4
    predicted = average(posterior.models(network))(data[0]).argmax(-1)
    assert (predicted == data[1]).double().mean() > 0.9


def test_a_run_is_kept_and_goes_on(data: tuple[Tensor, Tensor], tmp_path: Path) -> None:
    network = nn.Linear(2, 2)
    short, long = (Inference(draws=draws, burn_in=1, step_size=0.05) for draws in (2, 4))
    short.run(network, data, folder=tmp_path)
    resumed, whole = long.run(network, data, folder=tmp_path), long.run(network, data)
    assert torch.equal(resumed.params["weight"], whole.params["weight"])


def test_unknown_methods_are_named(data: tuple[Tensor, Tensor]) -> None:
    with pytest.raises(InputError, match="hmc, sgld, sghmc, ensemble"):
        Inference(method="nuts").run(nn.Linear(2, 2), data)
