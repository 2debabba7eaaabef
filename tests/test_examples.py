"""The examples run, and show what they say."""

from pathlib import Path

import hugging_face
import numpy as np
import pytest
import undo_blur
from paper.blur import relative_error


def test_a_stationary_linear_corruption_is_undone(tmp_path: Path) -> None:
    sharp, blurry, matched = undo_blur.undo_blur()
    assert abs(relative_error(blurry, sharp) - 0.275) < 0.005
    assert 0.06 < relative_error(matched, sharp) < 0.08  # with statistics of the same images it would be 0.057
    undo_blur.draw(tmp_path / "picture.png", sharp, blurry, matched)
    assert (tmp_path / "picture.png").stat().st_size > 10_000


@pytest.mark.slow
def test_hugging_face_takes_a_matched_network() -> None:
    pytest.importorskip("accelerate")
    found, robust = hugging_face.with_trainer(hugging_face.network())
    assert np.mean(found.predictions.argmax(-1) == found.label_ids) > 0.9
    assert robust.config.num_labels == 2
    labels = hugging_face.with_pipeline(robust)
    assert len(labels) == 16
