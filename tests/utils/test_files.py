from pathlib import Path

import pytest

from shiftmatch.utils.files import data_folder


def test_the_argument_comes_before_the_variable_before_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIFTMATCH_DATA", "~/elsewhere")
    assert data_folder("here") == Path("here")
    assert data_folder() == Path.home() / "elsewhere"
    monkeypatch.delenv("SHIFTMATCH_DATA")
    assert data_folder().name == "shiftmatch"
