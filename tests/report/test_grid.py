import numpy as np
import pytest
from made_scores import CORRUPTIONS, SITES, counted, everything, first, table

from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.metrics.uncertainty import paired_difference, wilson_interval
from shiftmatch.report.grid import MEAN_SHIFT, Bin, Cell, Grid, grid_of, grids, layer_shifts, reliability

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


def rows(corruption: str, severity: int | None, number: int, bin_: Bin) -> list[Score]:
    values = {"confidence": bin_.confidence, "accuracy": bin_.accuracy, "share": bin_.share}
    return [
        Score("plain", "d", corruption, severity, f"reliability/{number:02d}/{part}", value, 0)
        for part, value in values.items()
    ]


def test_bins_are_pooled_as_if_all_predictions_were_one_set() -> None:
    few, many = Bin(0.5, 0.0, 0.25), Bin(0.7, 1.0, 0.75)
    scores = Scores([*rows("fog", 1, 7, few), *rows("snow", 1, 7, many), *rows("clean", None, 7, Bin(0.1, 0.1, 1.0))])
    (pooled,) = reliability(scores)["plain"]
    assert pooled.accuracy == pytest.approx(0.75), "clean images are left out, and sets count by their shares"
    assert pooled.confidence == pytest.approx(0.65)
    assert pooled.share == pytest.approx(0.5)


def test_a_bin_of_few_images_has_an_interval_of_its_own_number() -> None:
    assert Bin(0.9, 1.0, 0.001, n=200).interval == wilson_interval(1, 1)
    assert Bin(0.9, 0.5, 0.5, n=200).interval == wilson_interval(50, 100)
    assert Bin(0.9, 0.5, 0.5).interval is None


def test_empty_bins_are_left_out() -> None:
    nothing = Bin(float("nan"), float("nan"), 0.0)
    scores = Scores([*rows("clean", None, 0, nothing), *rows("clean", None, 14, Bin(0.9, 0.8, 1.0))])
    assert reliability(scores) == {"plain": [Bin(0.9, 0.8, 1.0)]}
    assert reliability(Scores([])) == {}


def test_shifts_are_those_of_the_highest_severity_and_their_mean_comes_first() -> None:
    scores = everything()
    shifts = layer_shifts(scores)
    assert list(shifts) == [MEAN_SHIFT, "clean", *CORRUPTIONS]
    (fog,) = scores.where(corruption="fog", severity=5, metric="shift/conv1")
    assert shifts["fog"]["conv1"] == fog.value
    for site in SITES:
        mean = sum(shifts[name][site] for name in CORRUPTIONS) / len(CORRUPTIONS)
        assert shifts[MEAN_SHIFT][site] == pytest.approx(mean)
