from made_scores import everything

from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.report.grid import Cell, grid_of, grids


def test_every_data_set_and_every_metric_that_is_one_number_has_a_grid() -> None:
    scores = everything() + everything(data="other")
    pairs = [(grid.data, grid.measure.name) for grid in grids(scores)]
    metrics = ["accuracy", "ece", "log_likelihood", "confidence"]
    assert pairs == [(data, metric) for data in ("set-c", "other") for metric in metrics]


def test_seeds_are_averaged() -> None:
    rows = [Score("plain", "d", "fog", 1, "accuracy", value, seed) for seed, value in enumerate((0.25, 0.75))]
    assert grid_of(Scores(rows), "d", "accuracy").cells == {Cell("fog", 1): {"plain": 0.5}}


def test_a_mean_is_none_unless_every_cell_was_measured() -> None:
    rows = [Score("a", "d", "fog", 1, "accuracy", 0.5, 0), Score("b", "d", "snow", 1, "accuracy", 0.25, 0)]
    grid = grid_of(Scores(rows), "d", "accuracy")
    assert grid.mean("a", grid.corrupted) is None
    assert grid.mean("a", [Cell("fog", 1)]) == 0.5
    assert grid.mean("a", [Cell("fog", 1), Cell("fog", 2)]) == 0.5, "a severity that nobody has is no gap"
    assert grid.mean("a", []) is None


def test_cells_have_names_for_sentences() -> None:
    assert str(Cell("jpeg_compression", 3)) == "jpeg compression at severity 3"
    assert str(Cell("stripe", None)) == "stripe"
