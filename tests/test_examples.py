"""The examples run, and show what they say."""

from pathlib import Path

import undo_blur
from paper.blur import relative_error


def test_a_stationary_linear_corruption_is_undone(tmp_path: Path) -> None:
    sharp, blurry, matched = undo_blur.undo_blur()
    assert abs(relative_error(blurry, sharp) - 0.275) < 0.005
    assert 0.06 < relative_error(matched, sharp) < 0.08  # with statistics of the same images it would be 0.057
    undo_blur.draw(tmp_path / "picture.png", sharp, blurry, matched)
    assert (tmp_path / "picture.png").stat().st_size > 10_000
