"""Where released weights are looked for."""

from pathlib import Path

import pytest
from paper.cifar import weights_file

from shiftmatch.errors import DataNotFoundError


def test_a_missing_file_says_where_to_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHIFTMATCH_WEIGHTS", raising=False)
    with pytest.raises(DataNotFoundError, match="SHIFTMATCH_WEIGHTS"):
        weights_file("resnet20.safetensors", tmp_path)
    (tmp_path / "weights").mkdir()
    file = tmp_path / "weights" / "resnet20.safetensors"
    file.touch()
    assert weights_file("resnet20.safetensors", tmp_path) == file


def test_the_environment_names_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "resnet20.safetensors").touch()
    monkeypatch.setenv("SHIFTMATCH_WEIGHTS", str(tmp_path))
    assert weights_file("resnet20.safetensors") == tmp_path / "resnet20.safetensors"
