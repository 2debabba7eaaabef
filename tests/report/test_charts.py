from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from made_scores import CORRUPTIONS, METHODS, everything

from shiftmatch.report.charts import LABEL_GAP, Line, Point, Style, labelled, severity_chart, styles_of, ticks
from shiftmatch.report.grid import grid_of

SIZE = (600.0, 300.0)
numbers = st.floats(-1e6, 1e6).map(lambda value: round(value, 3))


@given(numbers, numbers)
def test_ticks_enclose_the_range_in_even_steps(one: float, two: float) -> None:
    low, high = sorted((one, two))
    found = ticks(low, high)
    assert found[0] <= low <= high <= found[-1]
    assert 2 <= len(found) <= 8
    steps = [after - before for before, after in pairwise(found)]
    assert max(steps) - min(steps) < 1e-6 * max(steps)


@given(st.lists(st.floats(0, 300), min_size=1, max_size=12))
def test_labels_do_not_overlap_and_stay_above_the_lower_edge(ends: list[float]) -> None:
    style = Style(0, 0, False)
    lines = labelled([Line(str(index), style, [Point(0.0, y, "")]) for index, y in enumerate(ends)], 300.0)
    places = sorted(line.label_y for line in lines)
    assert all(after - before > LABEL_GAP - 0.2 for before, after in pairwise(places))
    assert places[-1] <= 300


def test_lines_stay_in_the_frame_and_higher_is_more() -> None:
    grid = grid_of(everything(), "set-c", "accuracy")
    chart = severity_chart(
        grid, list(CORRUPTIONS), styles_of(list(METHODS), "plain", "ShiftMatch"), title="t", size=SIZE
    )
    assert [tick.text for tick in chart.across] == ["clean", "1", "3", "5"]
    plain, _, ours = chart.lines
    for line in chart.lines:
        assert all(0 <= point.x <= SIZE[0] and 0 <= point.y <= SIZE[1] for point in line.points)
    assert ours.points[-1].y < plain.points[-1].y
    assert plain.points[-1].tip == "plain, severity 5: 48.3 %"


def test_methods_keep_apart_by_colour_shape_and_dashes() -> None:
    methods = ["plain", "ShiftMatch", *map(str, range(12))]
    assert len(set(styles_of(methods, "plain", "ShiftMatch").values())) == len(methods)
