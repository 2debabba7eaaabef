from pathlib import Path

import pytest
from paper.experiments import registry
from tiny_world import write_world
from typer.testing import CliRunner

from shiftmatch.cli import app

pytestmark = pytest.mark.filterwarnings("ignore::shiftmatch.errors.SmallBatchWarning")
WIDE = {"COLUMNS": "200"}


def test_the_list_names_every_experiment() -> None:
    result = CliRunner(env=WIDE).invoke(app, ["reproduce", "list"])
    assert result.exit_code == 0, result.output
    assert all(name in result.stdout for name in registry.EXPERIMENTS)
    assert "Figure 11" in result.stdout


def test_an_experiment_prints_the_comparison_and_writes_files(tmp_path: Path) -> None:
    write_world(tmp_path / "data")
    out = tmp_path / "results"
    options = ["--size", "tiny", "--out", str(out), "--root", str(tmp_path / "data")]
    result = CliRunner(env=WIDE).invoke(app, ["reproduce", "fig2", *options])
    assert result.exit_code == 0, result.output
    assert "is undone" in result.stdout
    assert {file.name for file in out.iterdir()} == {
        "fig2.csv",
        "fig2.json",
        "fig2.error.svg",
        "fig2.error.png",
        "fig2.before-after.png",
    }


def test_all_goes_on_after_one_that_cannot_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: registry.EXPERIMENTS[name] for name in ("fig2", "timing-overhead")}
    monkeypatch.setattr(registry, "EXPERIMENTS", few)
    options = ["--size", "tiny", "--out", str(tmp_path / "out"), "--root", str(tmp_path / "no data")]
    result = CliRunner(env=WIDE).invoke(app, ["reproduce", "all", *options])
    assert result.exit_code == 1
    assert "fig2 could not be run" in result.output
    assert (tmp_path / "out" / "timing-overhead.csv").exists()
