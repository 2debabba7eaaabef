from pathlib import Path

from made_scores import everything, table

from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.figure_files import write_figures


def small() -> Scores:
    return table({"plain": {"fog": 0.5}, "ShiftMatch": {"fog": 0.6}})


def test_each_figure_that_has_scores_is_written(tmp_path: Path) -> None:
    scores = everything()
    kept = [metric for metric in scores.values("metric") if metric not in ("ece", "log_likelihood")]
    written = write_figures(scores.where(metric=kept), tmp_path)
    assert [path.name for path in written] == [
        "set-c-accuracy-severity-curves.svg",
        "set-c-accuracy-heat-map.svg",
        "set-c-accuracy-gains.svg",
        "set-c-confidence-severity-curves.svg",
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
