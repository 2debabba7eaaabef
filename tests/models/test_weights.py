from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from shiftmatch.errors import DataNotFoundError, FileFormatError, InputError, NonFiniteError
from shiftmatch.models import load_weights


def network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2))


def prefixed(prefix: str) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    return lambda state: {f"{prefix}{name}": tensor for name, tensor in state.items()}


LAYOUTS: dict[str, Callable[[dict[str, Tensor]], Any]] = {
    "alone": lambda state: state,
    "state_dict": lambda state: {"epoch": 3, "state_dict": state, "optimizer": {"lr": 0.1}},
    "model_state_dict": lambda state: {"model_state_dict": state, "loss": 0.1},
    "model": lambda state: {"model": state, "args": {"lr": 1}},
    "nested": lambda state: {"model": {"state_dict": state}},
    "DataParallel": prefixed("module."),
    "compiled": prefixed("_orig_mod."),
    "Lightning": lambda state: {"state_dict": prefixed("model.")(state)},
    "both": prefixed("module.model."),
    "old": lambda state: {name: tensor for name, tensor in state.items() if "num_batches" not in name},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_common_checkpoints_are_understood(tmp_path: Path, layout: str) -> None:
    saved, opened = network(), network()
    torch.save(LAYOUTS[layout](saved.state_dict()), tmp_path / "net.pt")
    load_weights(opened, tmp_path / "net.pt")
    assert all(torch.equal(a, b) for a, b in zip(saved.parameters(), opened.parameters(), strict=True))


@pytest.mark.parametrize("name", ["net.safetensors", "net.bin"])
def test_safetensors_are_known_by_what_is_in_them(tmp_path: Path, name: str) -> None:
    saved, opened = network(), network()
    save_file(saved.state_dict(), tmp_path / name)
    load_weights(opened, tmp_path / name)
    assert torch.equal(opened.get_parameter("0.weight"), saved.get_parameter("0.weight"))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_scripted_module_is_told_why_not(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.trace(network().eval(), torch.zeros(1, 1, 4, 4)), tmp_path / "net.pt")
    with pytest.raises(InputError, match=r"TorchScript.*state_dict\(\)"):
        load_weights(network(), tmp_path / "net.pt")


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return pytest.fail, ("ran code of a stranger's file",)


def test_a_file_that_could_run_code_is_refused(tmp_path: Path) -> None:
    for content in (network(), {"state_dict": Evil()}):
        torch.save(content, tmp_path / "net.pt")
        with pytest.raises(FileFormatError, match="could run code"):
            load_weights(network(), tmp_path / "net.pt")


def test_damaged_files_are_named(tmp_path: Path) -> None:
    torch.save(network().state_dict(), tmp_path / "whole.pt")
    (tmp_path / "cut.pt").write_bytes((tmp_path / "whole.pt").read_bytes()[:700])
    (tmp_path / "empty.pt").touch()
    (tmp_path / "text.pth").write_text("hello")
    (tmp_path / "text.safetensors").write_text("hello")
    for name in ("cut.pt", "empty.pt", "text.pth", "text.safetensors"):
        with pytest.raises(FileFormatError, match=name):
            load_weights(network(), tmp_path / name)
    with pytest.raises(DataNotFoundError, match="There is no file"):
        load_weights(network(), tmp_path / "nowhere.pt")
    others = {"holds a list": [1, 2], "no state_dict.*found epoch": {"epoch": 3}, "found 0": {0: torch.ones(1)}}
    for message, content in others.items():
        torch.save(content, tmp_path / "other.pt")
        with pytest.raises(FileFormatError, match=message):
            load_weights(network(), tmp_path / "other.pt")


def test_weights_of_another_network_are_compared_by_name_and_shape(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(1)}, tmp_path / "other.pt")
    with pytest.raises(InputError, match=r"it lacks 0\.weight.*the network has no w \(1 of 1\)"):
        load_weights(network(), tmp_path / "other.pt")
    torch.save(network().state_dict() | {"4.bias": torch.ones(9)}, tmp_path / "wide.pt")
    with pytest.raises(InputError, match=r"4\.bias of shape \(9,\), not \(2,\)"):
        load_weights(network(), tmp_path / "wide.pt")


def test_nan_weights_are_refused(tmp_path: Path) -> None:
    torch.save(network().state_dict() | {"4.bias": torch.tensor([0.0, float("nan")])}, tmp_path / "nan.pt")
    with pytest.raises(NonFiniteError, match=r"4\.bias.*NaN"):
        load_weights(network(), tmp_path / "nan.pt")
