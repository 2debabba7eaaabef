from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from shiftmatch.errors import InputError
from shiftmatch.matching.average import average
from shiftmatch.samplers.interop import from_laplace, from_models, from_state_dicts, from_states
from shiftmatch.samplers.posterior import Params, params_of


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


def test_state_dicts_and_models_keep_their_predictions() -> None:
    models, x = [network().eval() for _ in range(3)], torch.randn(5, 3)
    expected = average(models)(x)
    for posterior in (from_state_dicts(model.state_dict() for model in models), from_models(models)):
        torch.testing.assert_close(average(posterior.models(network()))(x), expected)


class Ensemble(nn.Module):
    """As torch-uncertainty builds them: the members are in `core_models`."""

    def __init__(self, core_models: list[nn.Module]) -> None:
        super().__init__()
        self.core_models = nn.ModuleList(core_models)


def test_ensembles_of_torch_uncertainty() -> None:
    assert len(from_models(Ensemble([network(), network()]))) == 2
    with pytest.raises(InputError, match="Linear"):
        from_models(nn.Linear(1, 1))


class State(NamedTuple):
    params: Params
    log_posterior: Tensor


def test_states_of_posteriors() -> None:
    models = [network(), network()]
    posterior = from_states(State(params_of(model), torch.zeros(())) for model in models)
    assert torch.equal(posterior[1]["0.weight"], models[1].state_dict()["0.weight"])


@pytest.mark.filterwarnings("ignore")  # it warns when it is imported
def test_real_states_of_posteriors() -> None:
    posteriors = pytest.importorskip("posteriors", reason="posteriors is not installed")
    transform = posteriors.sgmcmc.sgld.build(lambda params, batch: (-params["weight"].square().sum(), ()), lr=0.1)
    state = transform.init({"weight": torch.ones(1, 2)})
    later, _ = transform.update(state, batch=None, inplace=False)
    posterior = from_states([state, later])
    assert torch.equal(posterior[0]["weight"], torch.ones(1, 2))
    assert not torch.equal(posterior[1]["weight"], torch.ones(1, 2))


class Laplace:
    """As laplace-torch: draws are flat vectors, of all the parameters or of the last layer's."""

    def __init__(self, mean: Tensor) -> None:
        self.mean = mean

    def sample(self, n_samples: int = 100, generator: torch.Generator | None = None) -> Tensor:
        return self.mean + torch.randn(n_samples, len(self.mean), generator=generator)


@pytest.mark.parametrize("last_layers", [1, 3])
def test_laplace_approximations(last_layers: int) -> None:
    model = network()
    names = list(dict(model.named_parameters()))
    sampled = names[-2:] if last_layers == 1 else names
    flat = torch.cat([dict(model.named_parameters())[name].detach().flatten() for name in sampled])
    posterior = from_laplace(Laplace(flat), model, draws=2, generator=torch.Generator().manual_seed(0))
    noise = torch.randn(2, len(flat), generator=torch.Generator().manual_seed(0))
    draw = posterior[1]
    torch.testing.assert_close(torch.cat([draw[name].flatten() for name in sampled]), flat + noise[1])
    for name in set(names) - set(sampled):
        assert torch.equal(draw[name], dict(model.named_parameters())[name])


def test_laplace_of_another_network_is_refused() -> None:
    with pytest.raises(InputError, match="7 numbers"):
        from_laplace(Laplace(torch.zeros(7)), network(), draws=1)
