import copy
import pickle
from collections.abc import Sequence

import pytest
import torch
from networks import SmallBatchNormNet
from torch import Tensor, nn
from torch.testing import assert_close

from shiftmatch.errors import InputError
from shiftmatch.evaluation.methods import METHODS, predictor
from shiftmatch.evaluation.online import EpisodicAverage, OnlineModel, scales_and_shifts, tent
from shiftmatch.models import build
from shiftmatch.models.layers import FilterResponseNorm

TRAIN: list[Tensor] = []  # neither method looks at training images
TEST = 2 * torch.randn(150, 3, 8, 8, generator=torch.Generator().manual_seed(0)) + 1


def slow_running_batchnorm(network: SmallBatchNormNet, batches: Sequence[Tensor]) -> list[Tensor]:
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
    network, batches = SmallBatchNormNet(), TEST.split(50)
    predict = predictor(METHODS["batchnorm-running"], network, TRAIN)
    expected = slow_running_batchnorm(network, batches)
    for _ in range(2):
        assert_close([predict(x) for x in batches], expected, atol=1e-5, rtol=1e-4)
        assert isinstance(predict, EpisodicAverage)
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
    network, batches = SmallBatchNormNet(), TEST.split(50)
    predict = predictor(METHODS["Tent"], network, TRAIN)
    expected = slow_tent(network, batches)
    assert not torch.allclose(expected[1], slow_tent(network, batches[1:])[0], atol=1e-4)
    for _ in range(2):
        assert_close([predict(x) for x in batches], expected, atol=1e-5, rtol=1e-4)
        assert isinstance(predict, EpisodicAverage)
        predict.reset()


def test_tent_needs_something_to_learn() -> None:
    with pytest.raises(InputError, match=r"Tent learns.*Sequential has none"):
        predictor(METHODS["Tent"], build("lenet"), TRAIN)


def test_what_was_learned_is_not_sent_to_other_processes() -> None:
    model = OnlineModel(SmallBatchNormNet(), tent)
    before = model(TEST)
    copied = pickle.loads(pickle.dumps(model))
    assert not torch.equal(model(TEST), before)
    assert torch.equal(copied(TEST), before)


@pytest.mark.parametrize(
    ("layer", "count"),
    [(nn.GroupNorm(1, 4), 2), (nn.LayerNorm(4), 2), (FilterResponseNorm(4), 3), (nn.BatchNorm2d(4, affine=False), 0)],
)
def test_any_layer_that_normalises_can_be_learned(layer: nn.Module, count: int) -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), layer, nn.Sequential(nn.GroupNorm(2, 4)))
    assert len(scales_and_shifts(network)) == count + 2
