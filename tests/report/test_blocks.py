from statistics import fmean

from made_scores import CORRUPTIONS, everything, table

from shiftmatch.report.blocks import blocks, worst
from shiftmatch.report.grid import CLEAN, grid_of
from shiftmatch.report.heat import heat_map
from shiftmatch.report.measures import span


def test_the_mean_of_the_severities_comes_first_and_is_the_mean() -> None:
    scores = everything()
    mean, *each = blocks(grid_of(scores, "set-c", "accuracy"))
    assert [block.severity for block in (mean, *each)] == ["mean", "1", "3", "5"]
    for name in CORRUPTIONS:
        values = [row.value for row in scores.where(metric="accuracy", corruption=name, method="plain")]
        assert mean.rows[name]["plain"] == fmean(values)
    corrupted = scores.where(metric="accuracy", corruption=list(CORRUPTIONS), method="plain")
    assert mean.mean["plain"] == fmean(row.value for row in corrupted), "clean images are not in the mean"


def test_one_severity_or_none_gives_one_block() -> None:
    for severity, label in ((5, "5"), (None, "")):
        (block,) = blocks(grid_of(everything(severities=(severity,)), "set-c", "accuracy"))
        assert block.severity == label
        assert list(block.rows) == [CLEAN, *CORRUPTIONS]


def test_clean_images_alone_are_a_block_without_a_mean() -> None:
    grid = grid_of(table({"plain": {"clean": 0.5}}), "set-c", "accuracy")
    (block,) = blocks(grid)
    assert block.rows == {CLEAN: {"plain": 0.5}}
    assert heat_map(block, grid.measure, "plain", (0.0, 1.0)).mean is None


def test_the_worst_cells_are_the_worst_of_each_method() -> None:
    grid = grid_of(
        table({"a": {"clean": 0.1, "fog": 0.2, "snow": 0.3}, "b": {"fog": 0.9, "snow": 0.8}}), "set-c", "accuracy"
    )
    (block,) = blocks(grid)
    assert worst(block, better=1) == {("fog", "a"), ("snow", "b")}
    assert worst(block, better=-1) == {("snow", "a"), ("fog", "b")}
    assert worst(block, better=0) == set()


def test_cells_are_marked_by_more_than_their_colour() -> None:
    grid = grid_of(table({"plain": {"fog": 0.5, "snow": 0.9}, "ours": {"fog": 0.7, "snow": 0.8}}), "set-c", "accuracy")
    fog, snow = heat_map(blocks(grid)[0], grid.measure, "plain", span([0.5, 0.9, None, float("nan")])).rows
    assert [cell.level for cell in fog.cells] == [0, 22]
    assert [cell.level for cell in snow.cells] == [45, 34]
    assert [(cell.best, cell.worst, cell.below) for cell in fog.cells] == [(False, True, False), (True, True, False)]
    assert [(cell.best, cell.worst, cell.below) for cell in snow.cells] == [(True, False, False), (False, False, True)]
