from statistics import fmean

import pytest
from made_scores import CORRUPTIONS, counted, everything, first, table

from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.grid import CLEAN, grid_of
from shiftmatch.report.tables import Block, blocks


def tables(scores: Scores, metric: str = "accuracy") -> list[Block]:
    return blocks(grid_of(scores, "set-c", metric), "plain")


def value(block: Block, corruption: str, method: str) -> float:
    (row,) = (row for row in block.every_row if row.name == corruption)
    found = row.values[method]
    assert found is not None
    return found.value


def test_the_mean_of_the_severities_comes_first_and_is_the_mean() -> None:
    scores = everything()
    mean, *each = tables(scores)
    assert [block.severity for block in (mean, *each)] == ["mean", "1", "3", "5"]
    for name in CORRUPTIONS:
        values = [row.value for row in scores.where(metric="accuracy", corruption=name, method="plain")]
        assert value(mean, name, "plain") == pytest.approx(fmean(values))
    corrupted = scores.where(metric="accuracy", corruption=list(CORRUPTIONS), method="plain")
    assert value(mean, "mean", "plain") == pytest.approx(fmean(row.value for row in corrupted)), "without clean images"


def test_one_severity_or_none_gives_one_block() -> None:
    for severity, label in ((5, "5"), (None, "")):
        (block,) = tables(everything(severities=(severity,)))
        assert block.severity == label
        assert [row.name for row in block.rows] == [CLEAN, *CORRUPTIONS]


def test_clean_images_alone_are_a_block_without_a_mean() -> None:
    (block,) = tables(table({"plain": {"clean": 0.5}}))
    assert [row.name for row in block.rows] == [CLEAN]
    assert block.mean is None


def test_the_worst_cells_are_the_worst_of_each_method() -> None:
    (block,) = tables(table({"a": {"clean": 0.1, "fog": 0.2, "snow": 0.3}, "b": {"fog": 0.9, "snow": 0.8}}))
    assert block.worst(better=1) == {("fog", "a"), ("snow", "b")}
    assert block.worst(better=-1) == {("snow", "a"), ("fog", "b")}
    assert block.worst(better=0) == set()


def test_winners_and_losers_are_marked_only_beyond_noise() -> None:
    right = {
        "plain": {"clear": first(50, 100), "noise": first(50, 100), "lost": first(50, 100)},
        "other": {"clear": first(40, 100), "noise": first(49, 100), "lost": first(50, 100)},
        "ours": {"clear": first(70, 100), "noise": first(52, 100), "lost": first(30, 100)},
    }
    clear, noise, lost = tables(counted(right))[0].rows
    assert (clear.leader, set(clear.behind)) == ("ours", {"other"})
    assert (noise.leader, set(noise.behind)) == (None, set())
    assert (lost.leader, set(lost.behind)) == (None, {"ours"}), "two are the best together"


def test_without_intervals_no_winner_is_marked_and_every_loss_is() -> None:
    (fog,) = tables(table({"plain": {"fog": 0.5}, "ours": {"fog": 0.9}, "other": {"fog": 0.4}}))[0].rows
    assert (fog.leader, set(fog.behind)) == (None, {"other"})
