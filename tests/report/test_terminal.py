import sys
import webbrowser
from pathlib import Path

import pytest
from made_scores import counted, everything, first

from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.report.terminal import Loss, corruption_table, losses, means_table, open_in_browser


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
    found = losses(scores(plain=(0.9, 0.5, 0.25), ours=(0.875, 0.25, 0.5)))
    assert [(loss.corruption, loss.severity) for loss in found] == [("fog", 1), ("clean", None)]
    assert found[0] == Loss("ours", "fog", 1, 25.0)
    assert losses(scores(ours=(0.9, 0.5, 0.25))) == []


def test_losses_within_noise_are_no_news() -> None:
    plain, ours = {"fog": first(50, 100), "snow": first(50, 100)}, {"fog": first(49, 100), "snow": first(20, 100)}
    assert losses(counted({"plain": plain, "ours": ours})) == [Loss("ours", "snow", 5, 30.0)]


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
