import json
from pathlib import Path

import pytest

from shiftmatch.utils.files import PACKAGES, data_folder, save_result


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
