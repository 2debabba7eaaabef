import pytest
import torch
from torch import nn

from shiftmatch.errors import InputError
from shiftmatch.models.layers import ACTIVATIONS, FilterResponseNorm, FlattenRows, SameConv2d, activation, initialise


@pytest.mark.parametrize(("size", "kernel", "stride"), [(8, 3, 1), (8, 3, 2), (7, 3, 2), (8, 1, 2), (9, 5, 3)])
def test_same_convolution_is_a_plain_one_on_an_image_padded_after_rather_than_before(
    size: int, kernel: int, stride: int
) -> None:
    x, layer = torch.randn(2, 3, size, size), SameConv2d(3, 4, kernel, stride)
    out = -(-size // stride)
    total = max((out - 1) * stride + kernel - size, 0)
    padded = torch.zeros(2, 3, size + total, size + total)
    padded[:, :, total // 2 : total // 2 + size, total // 2 : total // 2 + size] = x
    expected = nn.functional.conv2d(padded, layer.weight, layer.bias, stride)
    assert layer(x).shape == (2, 4, out, out)
    torch.testing.assert_close(layer(x), expected)


def test_filter_response_norm_by_hand() -> None:
    layer, x = FilterResponseNorm(2), torch.randn(3, 2, 4, 5)
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    for image in range(3):
        for channel in range(2):
            plane = x[image, channel]
            gamma, beta, tau = (getattr(layer, name)[0, channel, 0, 0] for name in ("gamma", "beta", "tau"))
            expected = torch.maximum(gamma * plane / (plane.square().mean() + 1e-6).sqrt() + beta, tau)
            torch.testing.assert_close(layer(x)[image, channel], expected)


def test_flattening_puts_the_channels_last() -> None:
    x = torch.randn(2, 3, 4, 5)
    assert FlattenRows()(x)[1, (2 * 5 + 3) * 3 + 1] == x[1, 1, 2, 3]


def test_every_activation_has_a_name() -> None:
    assert {type(activation(name)) for name in ACTIVATIONS} == set(ACTIVATIONS.values())
    with pytest.raises(InputError, match=r"gelu.*relu"):
        activation("gelu")


def test_weights_have_the_scale_of_their_fan_in_and_the_seed_decides() -> None:
    layer = nn.Conv2d(16, 64, 5)
    initialise(layer, torch.Generator().manual_seed(0), gain=2.0)
    nominal = (2.0 / 400) ** 0.5
    assert layer.weight.abs().max() <= 2 * nominal
    assert layer.weight.std().item() == pytest.approx(0.8796 * nominal, rel=0.02)
    again = initialise(nn.Conv2d(16, 64, 5), torch.Generator().manual_seed(0), gain=2.0)
    assert torch.equal(again.state_dict()["weight"], layer.weight)
