import json
from pathlib import Path

import pytest
from made_scores import everything
from paper import registry
from tiny_data import write_data_sets
from typer.testing import CliRunner

from shiftmatch.cli import app


def test_a_page_tables_and_figures_from_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        everything(data=name).where(metric="accuracy").save(tmp_path / f"{name}.csv")
    page, tables, figures = tmp_path / "page.html", tmp_path / "tables.md", tmp_path / "figures"
    files = [str(tmp_path / "one.csv"), str(tmp_path / "two.csv")]
    options = ["--out", str(page), "--markdown", str(tables), "--figures", str(figures), "--format", "png", "--no-open"]
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["report", *files, *options])
    assert result.exit_code == 0, result.output
    assert str(page) in result.stdout.replace("\n", "")
    assert "<title>one, two</title>" in page.read_text()
    assert tables.read_text().startswith("# one, two")
    assert len(list(figures.glob("*.png"))) == 8


def test_the_methods_can_be_chosen(tmp_path: Path) -> None:
    everything().save(tmp_path / "scores.csv")
    page = tmp_path / "page.html"
    files = [str(tmp_path / "scores.csv"), "--out", str(page), "--no-open"]
    CliRunner().invoke(app, ["report", *files, "--baseline", "ShiftMatch", "--method", "other"], catch_exceptions=False)
    assert "<h1>other lowers accuracy" in page.read_text()
    result = CliRunner().invoke(app, ["report", *files, "--method", "mine"])
    assert result.exit_code == 1
    assert "'plain', 'other', 'ShiftMatch'" in result.stderr


@pytest.mark.parametrize("option", ["--out", "--markdown"])
def test_scores_are_not_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    monkeypatch.chdir(tmp_path)
    everything().save("scores.csv")
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["report", "scores.csv", option, "scores.csv", "--no-open"])
    assert "scores.csv is read by this command" in result.stderr
    assert [path.name for path in tmp_path.glob("*.html")] == []


def test_help_teaches() -> None:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["report", "--help"])
    assert "Example: shiftmatch report" in result.stdout


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


WIDE = {"COLUMNS": "200"}


def test_the_list_names_every_experiment() -> None:
    result = CliRunner(env=WIDE).invoke(app, ["reproduce", "list"])
    assert result.exit_code == 0, result.output
    assert all(name in result.stdout for name in registry.EXPERIMENTS)


def test_an_experiment_prints_the_claims_and_writes_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "SIZES", ("tiny",))
    write_data_sets(tmp_path / "data")
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
