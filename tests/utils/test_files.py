import json
import os
from pathlib import Path

import pytest
import torch

from shiftmatch.utils.files import PACKAGES, atomic_path, data_folder, save_result
from shiftmatch.utils.tensor_files import save_tensors


def test_the_argument_comes_before_the_variable_before_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIFTMATCH_DATA", "~/elsewhere")
    assert data_folder("here") == Path("here")
    assert data_folder() == Path.home() / "elsewhere"
    monkeypatch.delenv("SHIFTMATCH_DATA")
    assert data_folder().name == "shiftmatch"


def test_a_result_says_how_it_was_made(tmp_path: Path) -> None:
    save_result(tmp_path / "a" / "b.json", command="make it", settings={"seed": 0}, result={"accuracy": 99.5})
    record = json.loads((tmp_path / "a" / "b.json").read_text())
    assert record["result"] == {"accuracy": 99.5}
    assert record["command"] == "make it"
    assert set(record["versions"]) == set(PACKAGES)


def test_a_file_is_made_with_the_usual_rights_and_the_umask_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The umask is that of all threads: a file that another one makes meanwhile would be writable for everybody."""
    before = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("changed for every thread"))
        with atomic_path(tmp_path / "file") as temporary:
            temporary.write_text("whole")
        save_tensors(tmp_path / "tensors", {"x": torch.ones(1)}, kind="tensors", version=1, header={})
    finally:
        monkeypatch.undo()
        os.umask(before)
    assert {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {"file": 0o640, "tensors": 0o640}
