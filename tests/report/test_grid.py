from statistics import fmean

import numpy as np
import pytest
from made_scores import CORRUPTIONS, counted, everything, first, table

from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.metrics.uncertainty import paired_difference, wilson_interval
from shiftmatch.report.grid import Block, Cell, Grid, blocks, grid_of, grids
from shiftmatch.report.measures import CLEAN

FOG, SNOW = Cell("fog", 5), Cell("snow", 5)


def accuracy(scores: Scores) -> Grid:
    return grid_of(scores, "set-c", "accuracy")


def test_every_data_set_and_every_metric_that_is_one_number_has_a_grid() -> None:
    scores = everything() + everything(data="other")
    pairs = [(grid.data, grid.measure.name) for grid in grids(scores)]
    metrics = ["accuracy", "ece", "log_likelihood", "confidence"]
    assert pairs == [(data, metric) for data in ("set-c", "other") for metric in metrics]


def test_a_mean_is_none_unless_every_cell_was_measured() -> None:
    rows = [Score("a", "d", "fog", 1, "accuracy", 0.5, 0), Score("b", "d", "snow", 1, "accuracy", 0.25, 0)]
    grid = grid_of(Scores(rows), "d", "accuracy")
    assert grid.estimate("a", grid.corrupted) is None
    for cells in ([Cell("fog", 1)], [Cell("fog", 1), Cell("fog", 2)]):  # a severity that nobody has is no gap
        found = grid.estimate("a", cells)
        assert found is not None
        assert found.value == 0.5
    assert grid.estimate("a", []) is None


def test_a_cell_of_accuracies_has_wilsons_interval() -> None:
    found = accuracy(counted({"plain": {"fog": first(100, 100)}})).estimate("plain", [FOG])
    assert found is not None
    assert (found.low, found.high) == wilson_interval(100, 100)
    assert found.n == 100
    assert found.half, "not even where every image is right is there no doubt"


def test_a_mean_of_nothing_but_right_images_has_an_interval_too() -> None:
    found = accuracy(counted({"plain": {"fog": first(50, 50), "snow": first(50, 50)}})).estimate("plain", [FOG, SNOW])
    assert found is not None
    assert (found.low, found.high) == wilson_interval(50, 50)


def test_a_mean_over_cells_has_the_error_of_the_images_or_an_upper_bound() -> None:
    """Cells in which different images are right vary less together than apart, and only `correct` knows."""
    right = {"plain": {"fog": first(50, 100), "snow": first(49, 100)[::-1]}}
    for kept, half in ((True, 0.01), (False, 1.96 * 0.05)):
        found = accuracy(counted(right, kept=kept)).estimate("plain", [FOG, SNOW])
        assert found is not None
        assert found.half == pytest.approx(half, abs=0.001)


def test_differences_are_paired_where_it_is_known_which_images_are_right() -> None:
    right = {"plain": {"fog": first(50, 100)}, "ours": {"fog": first(60, 100)}}
    change = accuracy(counted(right)).change("plain", "ours", [FOG])
    assert change is not None
    apart = paired_difference(np.array(right["ours"]["fog"]), np.array(right["plain"]["fog"]))
    assert change.paired
    assert change.p_value == apart.p_value < 0.05
    assert change.half == pytest.approx((apart.high - apart.low) / 2)
    assert change.beyond_noise
    unpaired = accuracy(counted(right, kept=False)).change("plain", "ours", [FOG])
    assert unpaired is not None
    assert unpaired.half is not None
    assert not unpaired.paired
    assert unpaired.half > (change.half or 1)
    assert unpaired.is_noise


def test_without_numbers_of_images_nothing_is_known_of_noise() -> None:
    change = accuracy(table({"plain": {"fog": 0.5}, "ours": {"fog": 0.9}})).change("plain", "ours", [FOG])
    assert change is not None
    assert (change.half, change.p_value) == (None, None)
    assert not change.beyond_noise
    assert not change.is_noise


def test_seeds_are_averaged_and_must_agree() -> None:
    def runs(ours: tuple[int, int]) -> Scores:
        parts = [{"plain": {"fog": first(50, 200)}, "ours": {"fog": first(count, 200)}} for count in ours]
        return counted(parts[0], seed=0) + counted(parts[1], seed=1)

    for ours, agree in (((100, 120), True), ((40, 140), False)):
        grid = accuracy(runs(ours))
        change = grid.change("plain", "ours", [FOG])
        assert change is not None
        assert change.after.seeds == (ours[0] / 200, ours[1] / 200)
        assert change.after.value == pytest.approx(sum(ours) / 400)
        assert change.p_value is not None
        assert change.p_value < 0.001
        assert change.beyond_noise is agree


def test_cells_have_names_for_sentences() -> None:
    assert str(Cell("jpeg_compression", 3)) == "jpeg compression at severity 3"
    assert str(Cell("stripe", None)) == "stripe"


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
