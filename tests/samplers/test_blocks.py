import pytest
import torch
from randomness import randn
from torch import Tensor, nn
from torch.testing import assert_close

import shiftmatch as sm
from shiftmatch.samplers.blocks import in_blocks


def network(kernel: int | tuple[int, int] = 5, **how: object) -> nn.Sequential:
    torch.manual_seed(0)
    padding = tuple(size // 2 for size in (kernel if isinstance(kernel, tuple) else (kernel, kernel)))
    conv = nn.Conv2d(1, 6, kernel, **{"padding": padding} | how)  # type: ignore[arg-type]
    return nn.Sequential(conv, nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(6, 3, 3)).double()


@pytest.mark.parametrize("kernel", [1, 3, 5, 7, (3, 5)])
@pytest.mark.parametrize("bias", [True, False])
def test_outputs_and_gradients_are_those_of_the_network(kernel: int | tuple[int, int], bias: bool) -> None:
    net, images = network(kernel, bias=bias), randn(4, 1, 12, 10)
    found = in_blocks(net, images)
    assert found
    blocked, blocks = found
    assert_close(blocked(blocks), net(images), rtol=1e-9, atol=1e-9)
    assert dict(blocked.named_parameters()).keys() == dict(net.named_parameters()).keys()
    ours, obvious = (
        torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
        for model, x in ((blocked, blocks), (net, images))
    )
    assert_close(ours, obvious, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("between", [nn.ReLU(), nn.LeakyReLU(), nn.SiLU(), nn.Tanh(), nn.GELU()])
@pytest.mark.parametrize("side", [12, 40])
@pytest.mark.parametrize("pool", [nn.AvgPool2d(2), nn.AvgPool2d(3, 2, 1, ceil_mode=True), nn.AvgPool2d((1, 2))])
def test_nonlinearities_and_later_pools_change_nothing(between: nn.Module, side: int, pool: nn.AvgPool2d) -> None:
    conv, _, mean, last = network()
    net, images = nn.Sequential(conv, between, mean, last, between, pool), randn(4, 1, side, side)
    found = in_blocks(net, images)
    assert found
    pairs = [(model(x), list(model.parameters())) for model, x in (found, (net, images))]
    assert_close(pairs[0][0], pairs[1][0], rtol=1e-9, atol=1e-9)
    ours, obvious = (torch.autograd.grad(output.square().sum(), weights) for output, weights in pairs)
    assert_close(ours, obvious, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "net",
    [
        network(padding=0),
        network(stride=2),
        network(padding_mode="circular"),
        nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.Softmax(1), nn.AvgPool2d(2)),
        nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.AvgPool2d(3)),
        nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU()),
    ],
)
def test_other_networks_are_left_alone(net: nn.Sequential) -> None:
    assert in_blocks(net, torch.zeros(2, 1, 12, 12)) is None


def test_images_that_are_no_blocks_are_left_alone() -> None:
    assert in_blocks(network(), torch.zeros(2, 1, 11, 12)) is None


def test_the_posterior_of_a_lenet_is_that_of_plain_autograd() -> None:
    net, images, labels = sm.models.build("lenet").double(), randn(7, 1, 28, 28), torch.arange(7)
    density = sm.samplers.log_posterior(net, (images, labels), prior_scale=0.5)
    params: dict[str, Tensor] = dict(net.named_parameters())
    _, gradient = density.value_and_grad(params, torch.Generator())
    obvious = -nn.functional.cross_entropy(net(images), labels, reduction="sum")
    obvious = obvious - sum(p.square().sum() for p in params.values()) / (2 * 0.5**2)
    expected = torch.autograd.grad(obvious, list(params.values()))
    assert_close(tuple(gradient[name] for name in params), expected, rtol=1e-9, atol=1e-9)
