"""The tables of docs/choose.md are those of the results."""

from pathlib import Path

from paper import choosing

from shiftmatch.evaluation.scores import Score, Scores

ROOT = Path(__file__).parents[2]


def test_the_tables_are_those_of_the_results() -> None:
    text = (ROOT / "docs" / "choose.md").read_text()
    written = choosing.PLACE.sub(lambda found: choosing.table(found[1], ROOT / "paper" / "results"), text)
    assert {found[1] for found in choosing.PLACE.finditer(text)} == choosing.TABLES.keys()
    assert text == written, "the results have changed: run `python -m paper table`"


def test_rows_have_intervals_or_are_left_out(tmp_path: Path) -> None:
    def scores(stderr: float | None) -> Scores:
        cells: dict[str, int | None] = {"fog": 5, "snow": 5, "clean": None}
        return Scores([Score("plain", "d", name, at, "accuracy", 0.5, 0, 100, stderr) for name, at in cells.items()])

    scores(0.05).save(tmp_path / "some.csv")
    assert choosing.rows_of(choosing.Rows("some.csv", "LeNet: "), tmp_path) == [
        "| LeNet: plain | 50.0 ± 9.8 | 50.0 ± 9.8 |"
    ]
    scores(None).save(tmp_path / "some.csv")
    assert choosing.rows_of(choosing.Rows("some.csv"), tmp_path) == []
    assert choosing.rows_of(choosing.Rows("none.csv"), tmp_path) == []


def test_a_page_is_rewritten(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table: batches -->\nold\n<!-- end of table -->\nafter\n")
    choosing.write_tables(page, tmp_path)
    assert page.read_text().splitlines() == [
        "before",
        "<!-- table: batches -->",
        "No results with intervals yet.",
        "<!-- end of table -->",
        "after",
    ]
