from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from shiftmatch.errors import InputError
from shiftmatch.matching.average import average
from shiftmatch.samplers.diagnostics import convergence_summary
from shiftmatch.samplers.inference import METHODS, Inference

STEP = {"hmc": 0.01, "sgld": 0.3, "sghmc": 0.03, "vi": 0.05, "ensemble": 0.1}


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


def test_an_ensemble_that_is_killed_keeps_the_members_that_it_has(data: tuple[Tensor, Tensor], tmp_path: Path) -> None:
    how = Inference("ensemble", draws=2, step_size=0.1, steps=5)
    network = nn.Linear(2, 2)
    whole = how.run(network, data, folder=tmp_path)
    kept = (tmp_path / "member-0" / "state.safetensors").stat().st_mtime_ns
    (tmp_path / "member-1" / "state.safetensors").unlink()
    assert torch.equal(how.run(network, data, folder=tmp_path).params["weight"], whole.params["weight"])
    assert (tmp_path / "member-0" / "state.safetensors").stat().st_mtime_ns == kept


def test_chains_start_apart_and_are_compared(data: tuple[Tensor, Tensor]) -> None:
    network = nn.Linear(2, 2)
    posterior = Inference(draws=8, burn_in=4, step_size=0.05, trajectory=1.0, weight_decay=1.0, chains=2).run(
        network, data
    )
    assert posterior.chains == (8, 8)
    assert not torch.equal(posterior[0]["weight"], posterior[8]["weight"])
    said = convergence_summary(posterior, data[0], network)
    assert "R-hat 1." in said
    assert "acceptance 0." in said
    assert "E[θ·∇U]" in said


def test_a_posterior_of_the_last_layer_stays_around_the_trained_network(data: tuple[Tensor, Tensor]) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))  # BatchNorm is frozen
    how = Inference(draws=20, burn_in=20, step_size=0.05, trajectory=1.0, weight_decay=1.0, parameters="3.*")
    posterior = how.run(network, data)
    assert list(posterior.params) == ["3.weight", "3.bias"]
    members = posterior.models(network)
    assert torch.equal(members[3].state_dict()["0.weight"], network.state_dict()["0.weight"])
    cold = replace(how, temperature=0.01, step_size=0.005, trajectory=0.1).run(network, data)
    assert cold.params["3.weight"].var(0).mean() < 0.1 * posterior.params["3.weight"].var(0).mean()
    other = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    with pytest.raises(InputError, match="sampled around"):
        posterior.models(other)


def test_unknown_methods_are_named(data: tuple[Tensor, Tensor]) -> None:
    with pytest.raises(InputError, match="hmc, sgld, sghmc, vi, ensemble"):
        Inference(method="nuts").run(nn.Linear(2, 2), data)
    with pytest.raises(InputError, match=r"whole networks.*parameters='bias'"):
        Inference(method="ensemble", parameters="bias").run(nn.Linear(2, 2), data)
