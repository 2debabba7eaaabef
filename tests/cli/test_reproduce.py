from pathlib import Path

import pytest
from paper import registry
from tiny_world import write_world
from typer.testing import CliRunner

from shiftmatch.cli import app

pytestmark = pytest.mark.filterwarnings("ignore::shiftmatch.errors.SmallBatchWarning")
WIDE = {"COLUMNS": "200"}


def test_the_list_names_every_experiment() -> None:
    result = CliRunner(env=WIDE).invoke(app, ["reproduce", "list"])
    assert result.exit_code == 0, result.output
    assert all(name in result.stdout for name in registry.EXPERIMENTS)


def test_an_experiment_prints_the_claims_and_writes_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "SIZES", ("tiny",))
    write_world(tmp_path / "data")
    out = tmp_path / "results"
    options = ["--size", "tiny", "--out", str(out), "--root", str(tmp_path / "data")]
    result = CliRunner(env=WIDE).invoke(app, ["reproduce", "fig2", *options])
    assert result.exit_code == 0, result.output
    assert "leaves of the error" in result.stdout
    assert {"fig2.csv", "fig2.json", "fig2.error.svg"} <= {file.name for file in out.iterdir()}


def test_what_cannot_be_run_ends_with_an_error(tmp_path: Path) -> None:
    options = ["--out", str(tmp_path / "out"), "--root", str(tmp_path / "no data")]
    result = CliRunner(env=WIDE).invoke(app, ["reproduce", "fig2", *options])
    assert result.exit_code == 1
    assert "fig2 could not be run" in result.output
