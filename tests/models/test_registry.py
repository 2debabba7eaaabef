import pytest
import torch

from shiftmatch.errors import InputError
from shiftmatch.models import Architecture, build, names

SHAPES = {
    "lenet": (1, 28, 28),
    "mlp": (1, 28, 28),
    "resnet20_frn": (3, 32, 32),
    "cifar_resnet": (3, 32, 32),
    "cifar_resnet32": (3, 32, 32),
    "resnet50": (3, 64, 64),
}


@pytest.mark.parametrize("name", names())
def test_every_network_turns_images_into_logits(name: str) -> None:
    network = build(name, classes=7).eval()
    with torch.no_grad():
        assert network(torch.randn(2, *SHAPES[name])).shape == (2, 7)


@pytest.mark.parametrize("nonlinearity", ["relu", "swish", "sigmoid", "leaky_relu", "tanh"])
def test_lenet_comes_with_every_nonlinearity(nonlinearity: str) -> None:
    assert build("lenet", channels=3, size=32, nonlinearity=nonlinearity)(torch.randn(2, 3, 32, 32)).shape == (2, 10)


def test_an_architecture_builds_its_network() -> None:
    assert sum(p.numel() for p in Architecture("mlp", {"hidden": (5,)}).build().parameters()) == 785 * 5 + 60


def test_unknown_names_and_settings_are_explained() -> None:
    with pytest.raises(InputError, match=r"'vgg'.*lenet"):
        build("vgg")
    with pytest.raises(InputError, match=r"'width'.*channels"):
        build("lenet", width=3)
