import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shiftmatch.cli import app

SMALL = ["--images", "100", "--draws", "1"]
# So few digits are warned about, which is right but not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::shiftmatch.errors.SmallBatchWarning")


def test_json_is_for_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["demo", "--json", *SMALL])
    table = json.loads(result.stdout)["accuracy"]
    assert len(table) == 17
    assert set(table["mean"]) == {
        "HMC",
        "EmpCov",
        "ensemble",
        "test-time batchnorm",
        "ShiftMatch",
        "ShiftMatch (paper's structure)",
    }
    assert not list(tmp_path.iterdir())


def test_the_page_is_written_and_named(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["demo", "--no-open", "--out", str(page), *SMALL])
    assert result.exit_code == 0, result.output
    assert str(page) in result.stdout.replace("\n", "")
    assert "canny edges" in result.stdout
    assert page.read_text().startswith("<!doctype html>")
