from pathlib import Path

import pytest
import torch
from peak_memory import needs_proc, printed_memory
from torch import Tensor, nn

from shiftmatch.errors import InputError
from shiftmatch.matching.average import Member, average
from shiftmatch.matching.match import fit, match
from shiftmatch.models import Architecture
from shiftmatch.samplers.posterior import Posterior, params_of

TINY = Architecture("mlp", {"inputs": 4, "hidden": (3,), "classes": 5})


def posterior(draws: int) -> Posterior:
    return Posterior.of([params_of(TINY.build()) for _ in range(draws)], architecture=TINY)


def test_any_mix_of_members_equals_an_explicit_loop() -> None:
    draws, networks, x = posterior(20), [TINY.build().eval() for _ in range(3)], torch.randn(8, 1, 2, 2)
    members: list[Member | Posterior] = [networks[0], draws, *networks[1:]]
    explicit = torch.zeros(8, 5)
    for model in [*networks, *draws.models()]:
        explicit += model(x).softmax(-1).detach() / 23
    torch.testing.assert_close(average(members)(x), explicit, atol=1e-6, rtol=0)
    torch.testing.assert_close(average(iter(members))(x), explicit, atol=1e-6, rtol=0)


def test_matched_networks_are_members_like_any_other() -> None:
    network, x = Architecture("lenet").build().eval(), torch.randn(240, 1, 28, 28)
    matched = match(network, fit(network, [x]))
    expected = (matched(x + 1).softmax(-1) + network(x + 1).softmax(-1)).detach() / 2
    torch.testing.assert_close(average([matched, network])(x + 1), expected, atol=1e-6, rtol=0)


def test_a_posterior_alone_and_its_models_are_the_same_predictor() -> None:
    draws, x = posterior(4), torch.randn(8, 1, 2, 2)
    assert torch.equal(average(draws)(x), average(draws.models())(x))


def test_uncertainties_are_those_of_their_definitions() -> None:
    draws, x = posterior(6), torch.randn(8, 1, 2, 2)
    prediction = average(draws).predict(x)
    each = torch.stack([model(x).softmax(-1).detach() for model in draws.models()])
    mean = each.mean(0)
    entropy = -(mean * mean.log()).sum(-1)
    torch.testing.assert_close(prediction.entropy, entropy)
    torch.testing.assert_close(prediction.mutual_information, entropy + (each * each.log()).sum(-1).mean(0))
    torch.testing.assert_close(prediction.confidence, mean.amax(-1))


def test_members_that_agree_share_no_information_and_extreme_logits_stay_finite() -> None:
    def certain(x: Tensor) -> Tensor:
        return torch.tensor([[1e4, 0.0, -1e4]]).expand(len(x), -1)

    prediction = average([certain, certain]).predict(torch.zeros(2, 1))
    assert torch.equal(prediction.mutual_information, torch.zeros(2))
    assert prediction.log_probabilities.isfinite().all()
    torch.testing.assert_close(prediction.log_probabilities[0], torch.tensor([0.0, -1e4, -2e4]))


def test_nothing_to_average_is_refused() -> None:
    with pytest.raises(InputError, match="at least one"):
        average([])


MEMORY = """
from shiftmatch.matching.average import average
from shiftmatch.samplers.posterior import Posterior

network, x = nn.Sequential(nn.Linear(1000, 1000), Probe()), torch.randn(10, 1000)
average([network])(x)
before = used()
average(Posterior.load(sys.argv[1]).models(network))(x)
print(Probe.peak - before)
"""


@needs_proc
def test_twenty_draws_take_at_most_half_more_memory_than_one(tmp_path: Path) -> None:
    taken = {}
    for draws in (1, 20):
        file = tmp_path / f"{draws}.safetensors"
        Posterior.of([nn.Sequential(nn.Linear(1000, 1000)).state_dict() for _ in range(draws)]).save(file)
        taken[draws] = printed_memory(MEMORY, file)
    assert taken[1] > 3000, "one draw alone has four million bytes"
    assert taken[20] < 1.5 * taken[1], taken
