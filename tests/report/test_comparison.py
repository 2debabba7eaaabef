import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_scores import everything, table

from shiftmatch.report.comparison import Comparison, compare, headline, losses, scope, sentences
from shiftmatch.report.grid import Cell, grid_of

PLAIN = {"clean": 0.915, "fog": 0.5, "snow": 0.75}


def compared(ours: dict[str, float], metric: str = "accuracy") -> Comparison:
    found = compare(grid_of(table({"plain": PLAIN, "ours": ours}, metric=metric), "set-c", metric), "plain", "ours")
    assert found is not None
    return found


def test_the_headline_is_the_mean_over_the_corruptions_without_clean_images() -> None:
    found = compared({"clean": 0.91, "fog": 0.8, "snow": 0.70})
    assert (found.overall.before, found.overall.after) == (0.625, 0.75)
    assert headline(found) == "ours raises accuracy from 62.5\u00a0% to 75.0\u00a0% on set-c"
    assert scope(found) == "mean over 2 corruptions at severity 5"


def test_what_is_lost_is_named_cell_by_cell_worst_first() -> None:
    found = compared({"clean": 0.91, "fog": 0.499, "snow": 0.701})
    assert losses(found) == (
        "It loses to plain on clean images (−0.5 points) and in 2 of 2 cells: "
        "snow at severity 5 (−4.9 points), fog at severity 5 (−0.1 points)."
    )
    assert headline(found).startswith("ours lowers accuracy")
    assert "2.5 points worse than plain" in sentences(found)[0]
    assert "gains most" not in " ".join(sentences(found))


def test_a_tie_is_no_loss() -> None:
    assert losses(compared(PLAIN)) == "It loses to plain nowhere: in none of 2 cells."
    assert "keeps accuracy" in headline(compared(PLAIN))
    assert "no better and no worse than plain" in sentences(compared(PLAIN))[0]


@pytest.mark.parametrize(
    ("severities", "words"),
    [((5,), "severity 5"), ((1, 2), "severities 1 and 2"), ((1, 3, 5), "severities 1, 3 and 5"), ((2, 3, 4), "2 to 4")],
)
def test_the_scope_names_the_severities(severities: tuple[int, ...], words: str) -> None:
    found = compare(grid_of(everything(severities=severities), "set-c", "accuracy"), "plain", "ShiftMatch")
    assert found is not None
    assert scope(found).startswith("mean over 3 corruptions at ")
    assert scope(found).endswith(words)


def test_less_is_better_where_the_metric_is_an_error() -> None:
    found = compared({"clean": 0.91, "fog": 0.8, "snow": 0.70}, metric="ece")
    assert found.losses == [Cell("fog", 5)]
    assert found.best == Cell("snow", 5)
    assert found.overall.gain == -0.125


def test_the_highest_severity_is_told_apart_only_if_there_are_several() -> None:
    found = compare(grid_of(everything(), "set-c", "accuracy"), "plain", "ShiftMatch")
    assert found is not None
    assert {cell.severity for cell in found.severest} == {5}
    assert "At severity 5, from 48.3\u00a0% to 68.3\u00a0%, 20.0 points better." in sentences(found)
    assert not compared(PLAIN).severest


def test_only_cells_that_both_have_are_compared() -> None:
    found = compared({"fog": 0.6})
    assert list(found.changes) == [Cell("fog", 5)]
    assert found.clean is None
    assert scope(found) == "fog at severity 5"


def test_data_without_corruptions_is_compared_as_it_is() -> None:
    found = compare(
        grid_of(table({"plain": {"clean": 0.5}, "ours": {"clean": 0.75}}), "set-c", "accuracy"), "plain", "ours"
    )
    assert found is not None
    assert found.overall.gain == 0.25
    assert found.clean is None
    assert scope(found) == "clean images"


@pytest.mark.parametrize(("metric", "method"), [("confidence", "ours"), ("accuracy", "nobody")])
def test_no_comparison_without_a_better_side_or_without_the_method(metric: str, method: str) -> None:
    scores = table({"plain": PLAIN, "ours": PLAIN}, metric=metric)
    assert compare(grid_of(scores, "set-c", metric), "plain", method) is None


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=8))
def test_losses_and_the_rest_are_all_cells(pairs: list[tuple[float, float]]) -> None:
    before, after = ({str(index): pair[side] for index, pair in enumerate(pairs)} for side in (0, 1))
    found = compare(grid_of(table({"plain": before, "ours": after}), "set-c", "accuracy"), "plain", "ours")
    assert found is not None
    assert {cell.corruption for cell in found.losses} == {name for name in before if after[name] < before[name]}
    assert list(found.gains().values()) == sorted((after[n] - before[n] for n in before), reverse=True)
