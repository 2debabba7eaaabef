from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from shiftmatch.cli.loading import architecture_named, example_of, open_members, open_network
from shiftmatch.errors import DataNotFoundError, InputError, NonFiniteError
from shiftmatch.models import Architecture, build
from shiftmatch.samplers.posterior import Posterior

SMALL = "from torch import nn\ndef small():\n    return nn.Linear(4, 2)\n"


def test_a_function_in_the_working_directory_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mynets_for_a_test.py").write_text(SMALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["", *__import__("sys").path])
    network = open_network("mynets_for_a_test:small")
    assert isinstance(network, nn.Linear)
    assert not network.training
    again = open_network("mynets_for_a_test:small")
    assert torch.equal(network.weight, again.get_parameter("weight")), "the seed fixes random weights"


def test_a_function_in_a_file_anywhere_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    (tmp_path / "elsewhere_for_a_test.py").write_text(SMALL)
    name = f"{tmp_path}/elsewhere_for_a_test.py:small"
    assert isinstance(open_network(name), nn.Linear)
    assert isinstance(open_network(name), nn.Linear)
    (tmp_path / "json.py").write_text(SMALL)
    with pytest.raises(InputError, match="Rename the file"):
        open_network(f"{tmp_path}/json.py:small")
    with pytest.raises(DataNotFoundError, match=r"no file .*nowhere\.py"):
        open_network(f"{tmp_path}/nowhere.py:small")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def net(:", "SyntaxError"),
        ("import nothing_of_this_name", "No module named"),
        ("def net(): return 1 / 0", r"ZeroDivisionError.*line 1"),
        ("def net(depth): pass", "function without arguments"),
        ("def net(): return 3", "gives a value of type int; expected a torch.nn.Module"),
    ],
)
def test_a_users_mistake_is_told_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    monkeypatch.setattr("sys.modules", {**__import__("sys").modules})
    file = tmp_path / f"broken_{len(text)}.py"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        open_network(f"{file}:net")


def test_weights_and_posteriors_are_loaded(tmp_path: Path) -> None:
    torch.manual_seed(5)
    network = build("lenet")
    torch.save({"model": network.state_dict()}, tmp_path / "net.pt")
    opened = open_network("lenet", tmp_path / "net.pt")
    assert torch.equal(opened.get_parameter("conv1.weight"), network.get_parameter("conv1.weight"))
    Posterior.of([network.state_dict()] * 3).save(tmp_path / "posterior")
    members = open_members("lenet", posterior=tmp_path / "posterior", random=False)
    assert len(members) == 3
    assert torch.equal(members[2].get_parameter("conv1.weight"), network.get_parameter("conv1.weight"))
    assert len(open_members("lenet")) == 1
    assert architecture_named("lenet") == Architecture("lenet")
    assert architecture_named("mynets:small") is None


def test_random_weights_are_no_accident() -> None:
    with pytest.raises(InputError, match=r"--weights FILE, or --random-weights"):
        open_network("lenet", random=False)
    assert open_network("torch.nn:Identity", random=False), "a function may load its own"


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_scripted_network_is_told_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "torch.nn.scripted_for_a_test", lambda: torch.jit.trace(nn.ReLU(), torch.ones(1)), raising=False
    )
    with pytest.raises(InputError, match="TorchScript"):
        open_network("torch.nn:scripted_for_a_test")


def test_mistakes_are_explained(tmp_path: Path) -> None:
    for name, message in (
        ("nothing_of_this_name:f", "cannot be built: ModuleNotFoundError"),
        ("torch.nn:Nothing", "has no attribute"),
        ("math:pi", "gives a value of type float"),
        ("lenett", r"There is no network.*file\.py:function"),
    ):
        with pytest.raises(InputError, match=message):
            open_network(name)
    save_file({"w": torch.ones(1)}, tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="not those of this network"):
        open_network("lenet", tmp_path / "other.safetensors")
    for shape in ("large", "3x-1x4"):
        with pytest.raises(InputError, match="3x224x224"):
            example_of(shape)
    for device in ("cuda:7", "toaster"):
        with pytest.raises(InputError, match=f"--device {device} cannot be used"):
            open_network("lenet", device=device)


def test_a_function_that_gives_nan_weights_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = nn.Linear(1, 1)
    nn.init.constant_(broken.weight, float("nan"))
    monkeypatch.setattr("torch.nn.broken_for_a_test", broken, raising=False)
    with pytest.raises(NonFiniteError, match=r"weight in torch\.nn:broken_for_a_test hold NaN"):
        open_network("torch.nn:broken_for_a_test")
