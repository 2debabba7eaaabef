from pathlib import Path

from made_scores import everything
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


def test_help_teaches() -> None:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["report", "--help"])
    assert "Example: shiftmatch report" in result.stdout
