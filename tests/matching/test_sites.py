import pytest
import torch
from networks import (
    BranchingNet,
    FusedNet,
    GatedNet,
    GroupNormNet,
    InPlaceNet,
    PreActivationNet,
    RawNet,
    SharedNet,
    TwoInputNet,
)
from torch import Tensor, nn

import shiftmatch as sm
from shiftmatch import models
from shiftmatch.errors import InputError, SiteError

IMAGES = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("network", "names"),
    [
        (GroupNormNet(), ["norm1", "norm2"]),
        (FusedNet(), ["norm:batch_norm"]),
        (InPlaceNet(), ["block.bn1", "block.bn2"]),
        (PreActivationNet(), ["bn1", "bn2", "conv2", "bn3"]),
        (GatedNet(), ["conv"]),
        (SharedNet(), ["input:", "conv", "conv#2"]),
        (BranchingNet(), ["stem", "dark"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_pre_activations_of_the_main_branch(network: nn.Module, names: list[str]) -> None:
    assert sm.sites(network, IMAGES - 1).names == ["input", *names]


def test_functions_of_raw_parameters() -> None:
    assert sm.sites(RawNet(), IMAGES[:, :, :2, :2]).names == ["input", ":linear", ":linear#2"]


def test_several_inputs_are_sites_each() -> None:
    found = sm.sites(TwoInputNet(), (IMAGES, torch.randn(4, 6)))
    assert found.names == ["input[image]", "input[facts]", "conv", "dense"]


@pytest.mark.parametrize(
    ("name", "shape", "count"),
    [
        ("cifar_resnet", (3, 32, 32), 20),
        ("resnet50", (3, 64, 64), 50),
        ("resnet20_frn", (3, 32, 32), 20),
        ("lenet", (1, 28, 28), 5),
    ],
)
def test_reference_networks_have_the_published_number_of_sites(name: str, shape: tuple[int, ...], count: int) -> None:
    found = sm.sites(models.build(name), torch.randn(2, *shape))
    assert len(found) == count
    assert not any("shortcut" in site.name or "downsample" in site.name for site in found)


def test_post_activations_and_input_only() -> None:
    assert sm.sites(InPlaceNet(), IMAGES, at="post-activation").names == ["input", "block.relu", "block.relu#2"]
    assert sm.sites(InPlaceNet(), IMAGES, at="input").names == ["input"]


def test_another_place_is_refused() -> None:
    with pytest.raises(InputError, match=r"'post-activation', .* got 'activation'"):
        sm.sites(InPlaceNet(), IMAGES, at="activation")


def test_an_example_without_images_is_refused() -> None:
    with pytest.raises(InputError, match="at least one image"):
        sm.sites(InPlaceNet(), IMAGES[:0])


def test_choosing_by_pattern_type_and_function() -> None:
    net = InPlaceNet()
    assert sm.sites(net, IMAGES, "block.*").names == ["block.bn1", "block.bn2"]
    assert sm.sites(net, IMAGES, ["input", "*.bn2"]).names == ["input", "block.bn2"]
    assert sm.sites(net, IMAGES, nn.BatchNorm2d).names == ["block.bn1", "block.bn2"]
    assert sm.sites(net, IMAGES, lambda site: site.shape[0] == 3).names == ["input"]
    assert "block.downsample.0" in sm.sites(net, IMAGES, nn.Conv2d, at="module").names


@pytest.mark.parametrize("choice", ["layer9.*", nn.LSTM, lambda site: False])
def test_a_choice_of_nothing_lists_what_there_is(choice: object) -> None:
    with pytest.raises(SiteError, match=r"input, block\.bn1, block\.bn2"):
        sm.sites(InPlaceNet(), IMAGES, choice)  # type: ignore[arg-type]


def test_a_network_without_features_to_match_is_refused() -> None:
    with pytest.raises(SiteError, match="no place to match"):
        sm.sites(nn.Embedding(5, 3), torch.zeros(4, 2, dtype=torch.long))


def test_the_table_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    sm.sites(InPlaceNet(), IMAGES).describe()
    text = capsys.readouterr().out
    assert text.splitlines()[0].split() == ["site", "after", "shape", "read", "as"]
    assert "block.bn1  BatchNorm2d  6 × 8 × 8  6 channels of 8 × 8" in text


def test_looking_leaves_no_trace() -> None:
    net = InPlaceNet().train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    sm.sites(net, IMAGES)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert all(module.training for module in net.modules())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())


class DenseGateNet(nn.Module):
    """Squeeze and excitation with dense layers, whose gate is reshaped to the features, as in the first of them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.squeeze, self.excite = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 2), nn.Linear(2, 8)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.conv(x))
        gate = torch.sigmoid(self.excite(torch.relu(self.squeeze(x.mean((2, 3))))))
        return torch.as_tensor(self.head((x * gate.view(len(x), 8, 1, 1)).mean((2, 3))))


def test_the_layers_of_a_gate_are_no_sites_also_where_it_is_reshaped() -> None:
    assert sm.sites(DenseGateNet(), IMAGES).names == ["input", "conv"]
