from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from shiftmatch.cli.loading import architecture_named, example_of, open_members, open_network
from shiftmatch.errors import DataNotFoundError, FileFormatError, InputError
from shiftmatch.models import Architecture, build
from shiftmatch.samplers.posterior import Posterior


def test_a_function_in_the_working_directory_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mynets_for_a_test.py").write_text("from torch import nn\ndef small():\n    return nn.Linear(4, 2)\n")
    monkeypatch.chdir(tmp_path)
    network = open_network("mynets_for_a_test:small")
    assert isinstance(network, nn.Linear)
    assert not network.training
    again = open_network("mynets_for_a_test:small")
    assert torch.equal(network.weight, again.get_parameter("weight")), "the seed fixes random weights"


def test_weights_and_posteriors_are_loaded(tmp_path: Path) -> None:
    torch.manual_seed(5)
    network = build("lenet")
    save_file(network.state_dict(), tmp_path / "net.safetensors")
    opened = open_network("lenet", tmp_path / "net.safetensors")
    assert torch.equal(opened.get_parameter("conv1.weight"), network.get_parameter("conv1.weight"))
    Posterior.of([network.state_dict()] * 3).save(tmp_path / "posterior")
    members = open_members("lenet", posterior=tmp_path / "posterior")
    assert len(members) == 3
    assert torch.equal(members[2].get_parameter("conv1.weight"), network.get_parameter("conv1.weight"))
    assert len(open_members("lenet")) == 1
    assert architecture_named("lenet") == Architecture("lenet")
    assert architecture_named("mynets:small") is None


def test_mistakes_are_explained(tmp_path: Path) -> None:
    for name, message in (
        ("nothing_of_this_name:f", "cannot be imported"),
        ("torch.nn:Nothing", "cannot be imported"),
        ("math:pi", "gives a float"),
        ("lenett", "There is no network"),
    ):
        with pytest.raises(InputError, match=message):
            open_network(name)
    with pytest.raises(DataNotFoundError, match="There is no file"):
        open_network("lenet", tmp_path / "nowhere")
    (tmp_path / "pickle.pt").write_bytes(b"not a safetensors file")
    with pytest.raises(FileFormatError, match="save_file"):
        open_network("lenet", tmp_path / "pickle.pt")
    save_file({"w": torch.ones(1)}, tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="not those of this network"):
        open_network("lenet", tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="3x224x224"):
        example_of("large")
