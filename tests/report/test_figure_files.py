from pathlib import Path
from typing import Literal

import pytest
from made_scores import everything, table

from shiftmatch.report.figure_files import write_figures


@pytest.mark.parametrize(("kind", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_each_figure_that_has_scores_is_written_the_same_each_time(
    tmp_path: Path, kind: Literal["svg", "png"], start: bytes
) -> None:
    scores = everything().where(metric=[m for m in everything().values("metric") if m not in ("ece", "log_likelihood")])
    first, second = (write_figures(scores, tmp_path / name, kind=kind) for name in "ab")
    assert [path.stem for path in first] == [
        "set-c-accuracy-severity-curves",
        "set-c-accuracy-heat-map",
        "set-c-accuracy-gains",
        "set-c-confidence-severity-curves",
        "set-c-confidence-heat-map",
        "set-c-reliability",
        "set-c-layer-shift",
    ]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes().startswith(start)
        assert one.read_bytes() == other.read_bytes()


def test_figures_without_scores_are_left_out(tmp_path: Path) -> None:
    written = write_figures(table({"plain": {"fog": 0.5}, "ShiftMatch": {"fog": 0.6}}), tmp_path)
    assert [path.name for path in written] == ["set-c-accuracy-heat-map.svg", "set-c-accuracy-gains.svg"]
