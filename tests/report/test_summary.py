import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_scores import everything, table

from shiftmatch.report.grid import Cell, grid_of
from shiftmatch.report.markdown import markdown_of
from shiftmatch.report.summary import PairedComparison, compare, find, method_in

PLAIN = {"clean": 0.915, "fog": 0.5, "snow": 0.75}


def compared(ours: dict[str, float], metric: str = "accuracy") -> PairedComparison:
    found = compare(grid_of(table({"plain": PLAIN, "ours": ours}, metric=metric), "set-c", metric), "plain", "ours")
    assert found is not None
    return found


def test_the_overall_change_is_the_mean_over_the_corruptions_without_clean_images() -> None:
    found = compared({"clean": 0.91, "fog": 0.8, "snow": 0.70})
    assert (found.overall.before.value, found.overall.after.value, found.overall.gain) == (0.625, 0.75, 0.125)


def test_less_is_better_where_the_metric_is_an_error() -> None:
    found = compared({"clean": 0.91, "fog": 0.8, "snow": 0.70}, metric="ece")
    assert found.losses == [Cell("fog", 5)]
    assert found.best == Cell("snow", 5)
    assert found.overall.gain == -0.125


def test_the_highest_severity_is_told_apart_only_if_there_are_several() -> None:
    found = compare(grid_of(everything(), "set-c", "accuracy"), "plain", "ShiftMatch")
    assert found is not None
    assert {cell.severity for cell in found.severest} == {5}
    assert not compared(PLAIN).severest


def test_only_cells_that_both_have_are_compared() -> None:
    found = compared({"fog": 0.6})
    assert list(found.changes) == [Cell("fog", 5)]
    assert found.clean is None


def test_data_without_corruptions_is_compared_as_it_is() -> None:
    scores = table({"plain": {"clean": 0.5}, "ours": {"clean": 0.75}})
    found = compare(grid_of(scores, "set-c", "accuracy"), "plain", "ours")
    assert found is not None
    assert found.overall.gain == 0.25
    assert found.clean is None


@pytest.mark.parametrize(("metric", "method"), [("confidence", "ours"), ("accuracy", "nobody")])
def test_no_comparison_without_a_better_side_or_without_the_method(metric: str, method: str) -> None:
    scores = table({"plain": PLAIN, "ours": PLAIN}, metric=metric)
    assert compare(grid_of(scores, "set-c", metric), "plain", method) is None


def test_every_method_is_compared_with_the_baseline() -> None:
    for finding in find(everything(n=50)):
        expected = ["other", "ShiftMatch"] if finding.grid.measure.better else []
        assert [found.method for found in finding.others] == expected
        assert (finding.comparison in finding.others) == bool(expected)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=8))
def test_losses_are_the_cells_whose_shown_value_is_lower(pairs: list[tuple[float, float]]) -> None:
    before, after = ({str(index): pair[side] for index, pair in enumerate(pairs)} for side in (0, 1))
    found = compare(grid_of(table({"plain": before, "ours": after}), "set-c", "accuracy"), "plain", "ours")
    assert found is not None
    shown = {name: (round(100 * before[name], 1), round(100 * after[name], 1)) for name in before}
    assert {cell.corruption for cell in found.losses} == {name for name, (old, new) in shown.items() if new < old}
    gains = [change.gain for change in found.gains().values()]
    assert gains == sorted(gains, reverse=True)
    assert gains == pytest.approx(sorted(((new - old) / 100 for old, new in shown.values()), reverse=True))


def test_the_short_name_is_the_first_method_that_begins_with_it() -> None:
    long = table({"plain": {"fog": 0.5}, "ShiftMatch: spectrum": {"fog": 0.6}, "ShiftMatch (paper)": {"fog": 0.7}})
    assert "ShiftMatch: spectrum" in markdown_of(long, title="t", baseline="plain", method="ShiftMatch").splitlines()[2]
    both = ["ShiftMatch: spectrum", "ShiftMatch"]
    assert method_in(both, "ShiftMatch") == "ShiftMatch"
    assert method_in(["plain", "ShiftMatching"], "ShiftMatch") == "ShiftMatch"
