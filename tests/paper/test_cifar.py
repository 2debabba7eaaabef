"""Where released weights are looked for."""

from pathlib import Path

import pytest
from paper.cifar import CifarSetting, Combination, weights_file
from paper.training import ENSEMBLE, SGD, Networks

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


def test_members_that_are_not_shipped_yet_are_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paper.training.SHIPPED", tmp_path)
    setting = CifarSetting(Networks(shipped=True, members=2))
    ready, missing = setting.predictors([Combination(ENSEMBLE)], tmp_path, tmp_path)
    assert not ready
    assert "cifar_frn 0" in missing[ENSEMBLE]
    with pytest.raises(DataNotFoundError):
        setting.predictors([Combination(SGD)], tmp_path, tmp_path)
