import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_scores import counted, everything, first, table

from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.grid import Cell, grid_of
from shiftmatch.report.markdown import markdown_of
from shiftmatch.report.summary import (
    PairedComparison,
    compare,
    find,
    headline,
    interval_note,
    losses,
    method_in,
    method_lines,
    scope,
    sentences,
)

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


NBSP = "\u00a0"


def comparison_in(scores: Scores, method: str = "ours") -> PairedComparison:
    found = compare(grid_of(scores, "set-c", "accuracy"), "plain", method)
    assert found is not None
    return found


def bare(ours: dict[str, float]) -> PairedComparison:
    return comparison_in(table({"plain": PLAIN, "ours": ours}))


def out_of_hundred(plain: int, ours: int) -> PairedComparison:
    return comparison_in(counted({"plain": {"fog": first(plain, 100)}, "ours": {"fog": first(ours, 100)}}))


def test_the_headline_says_how_many_images_and_whether_they_were_made_here() -> None:
    found = out_of_hundred(50, 80)
    assert headline(found) == f"ours raises accuracy from 50.0{NBSP}% to 80.0{NBSP}% on set-c (100 images)"
    assert headline(found, "corruptions made here").endswith("(100 images, corruptions made here)")
    assert headline(bare({"clean": 0.91, "fog": 0.8, "snow": 0.70})).endswith("on set-c"), "nobody knows how many"


def test_the_headline_calls_noise_noise() -> None:
    expected = f"ours and plain are within noise in accuracy: 51.0{NBSP}% and 50.0{NBSP}% on set-c (100 images)"
    assert headline(out_of_hundred(50, 51)) == expected
    assert "within noise" in sentences(out_of_hundred(50, 51))[0]


def test_numbers_in_sentences_add_up() -> None:
    """61.849 -> 82.751 differ by 20.902, but 61.8 and 82.8 by 21.0."""
    found = comparison_in(table({"plain": {"fog": 0.61849}, "ours": {"fog": 0.82751}}))
    assert f"From 61.8{NBSP}% to 82.8{NBSP}%, 21.0 points better than plain" in sentences(found)[0]


def test_differences_have_intervals_and_p_values() -> None:
    said = sentences(out_of_hundred(50, 80))[0]
    assert f"30.0{NBSP}±{NBSP}9.3 points better than plain (p < 0.001)" in said
    assert said.endswith("fog at severity 5, 100 images.")
    assert "no interval known" in sentences(bare(PLAIN))[0]
    assert "paired" in interval_note(out_of_hundred(50, 80))
    assert "No interval known" in interval_note(bare(PLAIN))


def test_what_is_lost_is_named_cell_by_cell_worst_first() -> None:
    found = bare({"clean": 0.91, "fog": 0.499, "snow": 0.701})
    assert losses(found) == (
        "It loses to plain on clean images (−0.5 points) and in 2 of 2 cells: "
        "snow at severity 5 (−4.9 points), fog at severity 5 (−0.1 points)."
    )
    assert headline(found).startswith("ours lowers accuracy")
    assert "2.5 points worse than plain" in sentences(found)[0]
    assert "gains most" not in " ".join(sentences(found))


def test_losses_within_noise_are_told_apart() -> None:
    plain = {"clean": first(90, 100), "fog": first(50, 100), "snow": first(50, 100)}
    ours = {"clean": first(89, 100), "fog": first(20, 100), "snow": first(49, 100)}
    said = losses(comparison_in(counted({"plain": plain, "ours": ours})))
    sure, noise = said.split(" It is worse within noise")
    assert sure.startswith("It loses to plain in 1 of 2 cells: fog at severity 5 (−30.0")
    assert noise.startswith(" on clean images (−1.0")
    assert "in 1 of 2 cells: snow at severity 5 (−1.0" in noise


def test_a_tie_is_no_loss() -> None:
    assert losses(bare(PLAIN)) == "It loses to plain nowhere: in none of 2 cells."
    assert "keeps accuracy" in headline(bare(PLAIN))
    assert "no better and no worse than plain" in sentences(bare(PLAIN))[0]


def test_the_highest_severity_is_told_apart() -> None:
    said = sentences(comparison_in(everything(), "ShiftMatch"))
    assert f"At severity 5, from 48.3{NBSP}% to 68.3{NBSP}%, 20.0 points better than plain." in said


def test_every_method_has_a_line_with_its_difference_and_p_value() -> None:
    finding = find(everything(n=200))[0]
    lines = list(method_lines(finding))
    assert [line[0] for line in lines] == ["other", "ShiftMatch"]
    assert all("±" in mean and "±" in difference for _, mean, difference, _ in lines)
    assert {p for *_, p in lines} == {"< 0.001"}
    assert {p for *_, p in method_lines(find(everything())[0])} == {"not known"}


def test_the_spread_over_seeds_is_said() -> None:
    runs = [counted({"plain": {"fog": first(50, 100)}, "ours": {"fog": first(n, 100)}}, seed=n) for n in (70, 90)]
    assert "2 seeds from 70.0 to 90.0" in sentences(comparison_in(runs[0] + runs[1]))[0]


@pytest.mark.parametrize(
    ("severities", "words"),
    [((5,), "severity 5"), ((1, 2), "severities 1 and 2"), ((1, 3, 5), "severities 1, 3 and 5"), ((2, 3, 4), "2 to 4")],
)
def test_the_scope_names_the_severities(severities: tuple[int, ...], words: str) -> None:
    found = comparison_in(everything(severities=severities), "ShiftMatch")
    assert scope(found).startswith("mean over 3 corruptions at ")
    assert scope(found).endswith(words)
    assert scope(bare({"fog": 0.6})) == "fog at severity 5"
    assert scope(comparison_in(table({"plain": {"clean": 0.5}, "ours": {"clean": 0.6}}))) == "clean images"
