import re
from pathlib import Path

import pytest
from made_scores import everything, table

from shiftmatch.errors import DataNotFoundError, InputError
from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.figures import COLOURS, inline_svg, mean_bars
from shiftmatch.report.files import open_scores, pictures_beside, write_figures


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


def saved(scores: Scores, path: Path) -> Path:
    scores.save(path)
    return path


def test_one_file_is_itself(tmp_path: Path) -> None:
    path = saved(everything(), tmp_path / "a.csv")
    assert list(open_scores([path])) == list(everything())
    assert open_scores([path, path]).provenance == everything().provenance


def test_several_files_are_merged_and_each_keeps_its_account(tmp_path: Path) -> None:
    one, two = everything(), everything(data="other")
    merged = open_scores([saved(one, tmp_path / "a.csv"), saved(two, tmp_path / "b.csv")])
    assert list(merged) == [*one, *two]
    assert merged.provenance == {"a": one.provenance, "b": two.provenance}


def test_a_row_that_two_files_share_counts_once_and_may_not_differ(tmp_path: Path) -> None:
    same = saved(table({"plain": {"fog": 0.5}}), tmp_path / "a.csv")
    again = saved(table({"plain": {"fog": 0.5, "snow": 0.6}}), tmp_path / "b.csv")
    assert len(open_scores([same, again])) == 2
    with pytest.raises(InputError, match=r"plain on set-c, fog, severity 5, accuracy, seed 0 is 0\.5 in one and 0\.4"):
        open_scores([same, saved(table({"plain": {"fog": 0.4}}), tmp_path / "c.csv")])


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match=r"no file .*nothing\.csv"):
        open_scores([tmp_path / "nothing.csv"])


def test_pictures_are_found_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "a.before-after.png").write_bytes(b"")
    assert pictures_beside([tmp_path / "a.csv", tmp_path / "b.csv"]) == [tmp_path / "a.before-after.png"]
