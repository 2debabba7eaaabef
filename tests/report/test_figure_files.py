import re
from pathlib import Path

from made_scores import everything, table

from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.figure_files import inline_svg, write_figures
from shiftmatch.report.figures import COLOURS, mean_bars


def small() -> Scores:
    return table({"plain": {"fog": 0.5}, "ShiftMatch": {"fog": 0.6}})


def test_each_figure_that_has_scores_is_written(tmp_path: Path) -> None:
    scores = everything()
    kept = [metric for metric in scores.values("metric") if metric not in ("ece", "log_likelihood")]
    written = write_figures(scores.where(metric=kept), tmp_path)
    assert [path.name for path in written] == [
        "set-c-accuracy-severity-curves.svg",
        "set-c-accuracy-severity-panels.svg",
        "set-c-accuracy-heat-map.svg",
        "set-c-accuracy-gains.svg",
        "set-c-confidence-severity-curves.svg",
        "set-c-confidence-severity-panels.svg",
        "set-c-confidence-heat-map.svg",
        "set-c-reliability.svg",
        "set-c-layer-shift.svg",
    ]
    assert all(path.read_bytes().startswith(b"<?xml") for path in written)


def test_figures_without_scores_are_left_out(tmp_path: Path) -> None:
    written = write_figures(small(), tmp_path, kind="png")
    assert [path.name for path in written] == ["set-c-accuracy-heat-map.png", "set-c-accuracy-gains.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)


def test_the_same_scores_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = (write_figures(small(), tmp_path / name) for name in "ab")
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_inside_a_page_a_figure_has_the_colours_of_the_page_and_a_name() -> None:
    one, other = (inline_svg(mean_bars(small()), label) for label in ('bars of "a" & b', "other"))
    assert one.startswith("<svg")
    assert 'aria-label="bars of &quot;a&quot; &amp; b"' in one
    assert not any(colour in one for colour in COLOURS)
    assert "var(--c1)" in one
    assert "var(--ink)" in one
    assert ">ShiftMatch<" in one, "text stays text"
    names = [set(re.findall(r' id="([mp]\w{10})"', text)) for text in (one, other)]
    assert names[0]
    assert not names[0] & names[1], "what one figure defines, no other uses"
