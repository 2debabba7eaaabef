import copy
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from networks import GroupNormNet
from torch import Tensor, nn
from torch.testing import assert_close

from shiftmatch.averaging import average
from shiftmatch.benchmark.methods import METHODS, PRIOR, Episodes, method_named, predictor
from shiftmatch.core.covariance import ChannelMoments
from shiftmatch.errors import InputError
from shiftmatch.models import build
from shiftmatch.samplers.params import params_of
from shiftmatch.samplers.posterior import Posterior
from shiftmatch.sites.batchnorm import adapt_batchnorm
from shiftmatch.sites.fingerprint import fingerprint
from shiftmatch.sites.matching import fit, match

ONLY_WITH_BATCHNORM = ("batchnorm-running", "ShiftMatch + batchnorm")


class Small(nn.Module):
    """Two convolutions with BatchNorm, a head."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.conv1, self.bn1 = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.conv2, self.bn2 = nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6)
        self.head = nn.Linear(6 * 4 * 4, 5)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))))
        logits: Tensor = self.head(x.flatten(1))
        return logits


def images(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


TRAIN = images(300, 1).split(100)
TEST = 2 * images(150, 2) + 1

every_method = pytest.mark.parametrize("name", METHODS)


@every_method
def test_every_method_takes_a_network_an_ensemble_and_a_posterior(name: str) -> None:
    networks = [Small(seed) for seed in range(3)]
    draws = Posterior.of([network.state_dict() for network in networks])
    before = [fingerprint(network) for network in networks]
    apart = [predictor(METHODS[name], network, TRAIN)(TEST) for network in networks]
    together = predictor(METHODS[name], networks, TRAIN)(TEST)
    assert_close(together, torch.stack(apart).mean(0), atol=1e-5, rtol=0)
    assert_close(predictor(METHODS[name], draws.models(Small()), TRAIN)(TEST), together, atol=1e-5, rtol=0)
    assert [fingerprint(network) for network in networks] == before
    assert not any(network.training for network in networks)


@every_method
def test_networks_without_batchnorm_are_taken_or_refused_in_words(name: str) -> None:
    network = GroupNormNet().eval()
    if name in ONLY_WITH_BATCHNORM:
        with pytest.raises(InputError, match=r"GroupNormNet has no BatchNorm.*Leave it out"):
            predictor(METHODS[name], network, TRAIN)
    else:
        assert_close(predictor(METHODS[name], network, TRAIN)(TEST).sum(-1), torch.ones(len(TEST)))


@pytest.mark.parametrize("name", ["ShiftMatch", "CORAL", "channel moments", "ShiftMatch: input only"])
def test_on_the_training_images_matching_changes_nothing(name: str) -> None:
    network, x = Small(), torch.cat(list(TRAIN))
    assert_close(METHODS[name](network, TRAIN)(x), network(x), atol=1e-3, rtol=1e-3)


def test_a_posterior_that_names_its_network_is_a_member() -> None:
    lenets = [build("lenet").eval() for _ in range(2)]
    posterior = Posterior.of([params_of(net) for net in lenets], architecture=None)
    x = torch.randn(240, 1, 28, 28)
    expected = predictor(METHODS["ShiftMatch"], lenets, [x])(x + 1)
    found = predictor(METHODS["ShiftMatch"], posterior.models(build("lenet")), [x])(x + 1)
    assert_close(found, expected, atol=1e-6, rtol=0)


def test_statistics_of_members_may_be_kept_in_a_file(tmp_path: Path) -> None:
    networks = [Small(seed) for seed in range(3)]
    kept = predictor(METHODS["ShiftMatch: input only"], networks, TRAIN, path=tmp_path / "statistics")
    assert (tmp_path / "statistics").exists()
    assert_close(kept(TEST), predictor(METHODS["ShiftMatch: input only"], networks, TRAIN)(TEST), atol=1e-5, rtol=0)


def test_test_time_batchnorm_is_channel_moments_where_there_is_no_batchnorm() -> None:
    network, bare = Small(), GroupNormNet().eval()
    assert_close(METHODS["batchnorm"](network, TRAIN)(TEST), adapt_batchnorm(network)(TEST))
    assert_close(METHODS["batchnorm-prior"](network, TRAIN)(TEST), adapt_batchnorm(network, prior=PRIOR)(TEST))
    matched = match(bare, fit(bare, TRAIN, covariance=ChannelMoments(), progress=False), prior=PRIOR)
    assert_close(METHODS["batchnorm-prior"](bare, TRAIN)(TEST), matched(TEST))


def slow_running_batchnorm(network: Small, batches: Sequence[Tensor]) -> list[Tensor]:
    """BatchNorm written out: the running average is updated with a batch, then the batch normalised with it."""
    means, variances = [torch.zeros(4), torch.zeros(6)], [torch.ones(4), torch.ones(6)]
    found = []
    for batch in batches:
        x = batch
        for i, (conv, norm) in enumerate([(network.conv1, network.bn1), (network.conv2, network.bn2)]):
            y = conv(x)
            means[i] = 0.9 * means[i] + 0.1 * y.mean((0, 2, 3))
            variances[i] = 0.9 * variances[i] + 0.1 * y.var((0, 2, 3), correction=0)
            y = (y - means[i][:, None, None]) / (variances[i][:, None, None] + norm.eps).sqrt()
            x = torch.relu(norm.weight[:, None, None] * y + norm.bias[:, None, None])
        found.append(network.head(x.flatten(1)).softmax(-1))
    return found


def test_the_running_average_is_a_slow_loop_and_is_forgotten() -> None:
    network, batches = Small(), TEST.split(50)
    predict = predictor(METHODS["batchnorm-running"], network, TRAIN)
    expected = slow_running_batchnorm(network, batches)
    for _ in range(2):
        assert_close([predict(x) for x in batches], expected, atol=1e-5, rtol=1e-4)
        assert isinstance(predict, Episodes)
        predict.reset()


def slow_tent(network: nn.Module, batches: Sequence[Tensor]) -> list[Tensor]:
    """The network in training mode on a copy; Adam over the affine parameters of BatchNorm."""
    network = copy.deepcopy(network).train()
    learned = [p for module in network.modules() if isinstance(module, nn.BatchNorm2d) for p in module.parameters()]
    optimiser = torch.optim.Adam(learned, lr=1e-3)
    found = []
    for x in batches:
        p = network(x).softmax(-1)
        found.append(p.detach())
        optimiser.zero_grad()
        (-(p * p.log()).sum() / len(x)).backward()
        optimiser.step()
    return found


def test_tent_is_a_slow_loop_and_forgets() -> None:
    network, batches = Small(), TEST.split(50)
    predict = predictor(METHODS["Tent"], network, TRAIN)
    expected = slow_tent(network, batches)
    assert not torch.allclose(expected[1], slow_tent(network, batches[1:])[0], atol=1e-4)
    for _ in range(2):
        assert_close([predict(x) for x in batches], expected, atol=1e-5, rtol=1e-4)
        assert isinstance(predict, Episodes)
        predict.reset()


def test_tent_needs_something_to_learn() -> None:
    with pytest.raises(InputError, match=r"Tent learns.*Sequential has none"):
        predictor(METHODS["Tent"], build("lenet"), TRAIN)


def test_coral_matches_the_covariance_between_channels() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5)).eval()
    seen: dict[str, Tensor] = {}
    network[0].register_forward_pre_hook(lambda module, args: seen.update(x=args[0]))
    mixing = torch.tensor([[1.0, 0.5, 0.0], [0.0, 2.0, 0.3], [0.0, 0.0, 0.5]])
    METHODS["CORAL"](network, TRAIN)(torch.einsum("dc,bchw->bdhw", mixing, images(200, 3)) + 1)
    after, train = (x.movedim(1, 0).flatten(1) for x in (seen["x"], torch.cat(list(TRAIN))))
    assert_close(after.cov(), train.cov(), atol=2e-3, rtol=0)
    assert_close(after.mean(1), train.mean(1), atol=1e-3, rtol=0)


def test_methods_are_found_by_name() -> None:
    assert method_named(" shiftmatch ") is METHODS["ShiftMatch"]
    with pytest.raises(InputError, match=r"no method 'shiftmatsch'; choose among plain, batchnorm"):
        method_named("shiftmatsch")


def test_the_papers_floor_at_the_input_follows_the_pixels() -> None:
    flat = TEST * torch.linspace(1e-3, 1, 8)  # columns of little variance, so that the floor matters
    network = Small()
    coarse, fine = (method_named("ShiftMatch (paper)", pixel_std=std)(network, TRAIN) for std in (0.01, 1.0))
    assert not torch.allclose(average([coarse])(flat), average([fine])(flat), atol=1e-3)
