import sys
import webbrowser
from pathlib import Path

import pytest
from made_scores import counted, everything, first, table

from shiftmatch.errors import InputError
from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.report.markdown import (
    Loss,
    corruption_table,
    lost_cells,
    markdown_of,
    means_table,
    open_in_browser,
    write_markdown,
)

EXPECTED = """# a \\_title\\_

ours raises accuracy from 50.0\u00a0% to 65.0\u00a0% on set-c (100 images).

## set-c: accuracy

From 50.0\u00a0% to 65.0\u00a0%, 15.0\u00a0±\u00a04.7 points better than plain (p &lt; 0.001): \
mean over 2 corruptions at severity 5, 100 images in each of 2 cells. \
It gains most under fog at severity 5: +31.0\u00a0±\u00a09.3 points. \
It is worse within noise in 1 of 2 cells: snow at severity 5 (−1.0\u00a0±\u00a03.3 points).

± is half of a 95\u00a0% interval over test images. Differences are taken image by image (paired). Cells are tested \
one by one, without correction for their number.

| method | mean | against plain | p |
|---|---:|---:|---:|
| ours | 65.0 ± 7.6 | +15.0\u00a0±\u00a04.7 points | &lt; 0.001 |

accuracy, in %, severity 5:

| corruption | plain | ours |
|---|---:|---:|
| fog | 50.0 ± 9.6 | **81.0 ± 7.6** |
| snow | 50.0 ± 9.6 | 49.0 ± 9.6 |
| **mean** | 50.0 ± 9.8 | **65.0 ± 7.6** |
"""


def test_the_values_are_the_table() -> None:
    plain, ours = {"fog": first(50, 100), "snow": first(50, 100)}, {"fog": first(81, 100), "snow": first(49, 100)}
    text = markdown_of(counted({"plain": plain, "ours": ours}), title="a _title_", baseline="plain", method="ours")
    assert text.startswith(EXPECTED)
    assert "| data | set-c |" in text
    assert "<details><summary>How this was measured" in text


def test_without_intervals_it_says_so_and_nothing_is_bold() -> None:
    scores = table({"plain": {"fog": 0.5}, "ours": {"fog": 0.8}})
    text = markdown_of(scores, title="t", baseline="plain", method="ours")
    assert "No interval known" in text
    assert "| fog | 50.0 | 80.0 |" in text


def test_a_file_is_written(tmp_path: Path) -> None:
    write_markdown(everything(), tmp_path / "report.md")
    text = (tmp_path / "report.md").read_text()
    assert text.count("accuracy, in %, severity") == 3
    assert "| my own |" in text


def test_names_cannot_break_a_table() -> None:
    text = markdown_of(table({"a|b": {"x": 0.1}, "<i>": {"x": 0.2}}), title="t", baseline="a|b", method="<i>")
    assert "| corruption | a\\|b | &lt;i> |" in text


def test_without_the_baseline_it_says_what_there_is() -> None:
    with pytest.raises(InputError, match="they have 'ours'"):
        markdown_of(table({"ours": {"x": 0.1}}), title="t", baseline="plain", method="ours")


def scores(**accuracy: tuple[float, float, float]) -> Scores:
    cells = [("clean", None), ("fog", 1), ("fog", 5)]
    return Scores(
        [
            Score(method, "cifar10-c", *cell, metric, value, 0)
            for method, values in accuracy.items()
            for cell, value in zip(cells, values, strict=True)
            for metric in ("accuracy", "ece")
        ]
    )


def test_means_stand_beside_clean_images_by_severity() -> None:
    table = means_table(scores(plain=(0.9, 0.5, 0.25), ours=(0.9, 0.75, 0.5)), "accuracy")
    assert [column.header for column in table.columns] == ["method", "clean", "severity 1", "severity 5", "mean"]
    assert [list(column.cells) for column in table.columns] == [
        ["plain", "ours"],
        ["90.0", "90.0"],
        ["50.0", "75.0"],
        ["25.0", "50.0"],
        ["37.5", "62.5"],
    ]


def test_one_severity_needs_no_column() -> None:
    table = means_table(scores(plain=(0.9, 0.5, 0.25)).where(severity=[5, None]), "ece")
    assert [column.header for column in table.columns] == ["method", "clean", "mean"]
    assert list(table.columns[2].cells) == ["25.0"]


def test_losses_are_told_from_the_worst() -> None:
    found = lost_cells(scores(plain=(0.9, 0.5, 0.25), ours=(0.875, 0.25, 0.5)))
    assert [(loss.corruption, loss.severity) for loss in found] == [("fog", 1), ("clean", None)]
    assert found[0] == Loss("ours", "fog", 1, 25.0)
    assert lost_cells(scores(ours=(0.9, 0.5, 0.25))) == []


def test_losses_within_noise_are_no_news() -> None:
    plain, ours = {"fog": first(50, 100), "snow": first(50, 100)}, {"fog": first(49, 100), "snow": first(20, 100)}
    assert lost_cells(counted({"plain": plain, "ours": ours})) == [Loss("ours", "snow", 5, 30.0)]


def test_tables_have_intervals_sample_sizes_and_winners_beyond_noise() -> None:
    means = means_table(everything(n=200), "accuracy")
    assert means.title == "set-c, 200 images: accuracy in %"
    assert list(means.columns[1].cells) == ["90.0 ± 4.2", "89.0 ± 4.4", "88.0 ± 4.5"]
    assert list(means.columns[-1].cells)[-1] == "[bold]82.3 ± 3.5[/]"
    table = corruption_table(everything(n=200), "accuracy")
    assert [column.header for column in table.columns] == ["corruption", "plain", "other", "ShiftMatch"]
    assert list(table.columns[0].cells) == ["clean", "gaussian noise", "fog", "my own", "mean"]
    assert list(table.columns[3].cells)[-1] == "[bold]82.3 ± 3.5[/]"
    assert means_table(everything(), "accuracy").caption == "no interval known"


def test_a_page_is_opened_only_where_there_is_a_display(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def remember(address: str) -> bool:
        opened.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", remember)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert not open_in_browser(tmp_path / "page.html")
    monkeypatch.setenv("DISPLAY", ":0")
    assert open_in_browser(tmp_path / "page.html")
    assert opened == [(tmp_path / "page.html").as_uri()]
