"""The start and the resumption of the FRN networks."""

from pathlib import Path

import pytest
import torch
from paper.recipes.cifar_frn import Recipe, Run, unpad
from paper.recipes.transplant import calibrate, transplant

from shiftmatch.models import build
from shiftmatch.models.layers import FilterResponseNorm, initialise
from shiftmatch.models.resnets import ResNetFRN


def test_calibration_gives_the_moments_that_batchnorm_had() -> None:
    generator = torch.Generator().manual_seed(0)
    released = initialise(build("cifar_resnet", depth=20), generator, gain=2.0)
    network, images = ResNetFRN(), torch.randn(16, 3, 32, 32, generator=generator)
    transplant(network, released.state_dict(), (0, 1, 2), sharpness=2.0)
    calibrate(network, images)
    seen: dict[str, torch.Tensor] = {}
    norm = network.get_submodule("blocks.4.unit2.frn")
    norm.register_forward_hook(lambda module, inputs, output: seen.update(out=output))
    with torch.no_grad():
        network(images)
    assert isinstance(norm, FilterResponseNorm)
    passed = seen["out"] > norm.tau  # the threshold is far below
    assert passed.float().mean() > 0.99
    assert seen["out"].mean((0, 2, 3)).abs().max() < 0.1
    assert torch.allclose(seen["out"].std((0, 2, 3)), torch.tensor(2.0), rtol=0.1)


def test_convolutions_that_pad_by_themselves_compute_the_same() -> None:
    network, images = ResNetFRN(blocks=1), torch.randn(2, 3, 32, 32)
    before, names = network(images), list(network.state_dict())
    unpad(network)
    assert torch.allclose(network(images), before, atol=1e-5)
    assert list(network.state_dict()) == names


def test_a_run_resumes_as_if_it_had_not_been_interrupted(tmp_path: Path) -> None:
    recipe = Recipe(epochs=1, images=8, batch_size=2, start="fresh")
    images, labels = torch.randn(8, 3, 32, 32), torch.arange(8)
    whole = Run(recipe, 0, tmp_path)
    for _ in range(4):
        whole.train_step(whole.network, images, labels)
    first = Run(recipe, 0, tmp_path)
    for _ in range(2):
        first.train_step(first.network, images, labels)
    first.save(tmp_path / "state.pt")
    second = Run(recipe, 0, tmp_path)
    second.load(tmp_path / "state.pt")
    for _ in range(2):
        second.train_step(second.network, images, labels)
    assert all(map(torch.equal, whole.network.parameters(), second.network.parameters()))
    other = Run(Recipe(epochs=2, images=8, batch_size=2, start="fresh"), 0, tmp_path)
    with pytest.raises(SystemExit, match="begun with"):
        other.load(tmp_path / "state.pt")
