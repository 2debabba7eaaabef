"""Where photographs and their networks come from."""

from pathlib import Path

import pytest
import torch
from paper.experiments.photographs import Published, Sample
from tiny_world import PICTURES, write_world

from shiftmatch.errors import DataNotFoundError


def test_the_sample_has_its_classes_in_its_names(tmp_path: Path) -> None:
    write_world(tmp_path)
    suite = Sample().suite(tmp_path, limit=4, corruptions=("contrast",), severities=(5,))
    assert suite.labels.tolist() == [0, 1, 2, 3]
    assert suite.images("contrast", 5).shape == (4, 3, 224, 224)
    assert len(Sample().train(tmp_path)) == PICTURES


def test_pixels_are_prepared_as_the_network_was_trained() -> None:
    grey = torch.full((1, 3, 1, 1), 127, dtype=torch.uint8)
    assert Sample().preprocess(grey).abs().max() < 1e-6
    assert torch.allclose(Sample().preprocess(grey + 64), torch.tensor(0.5))


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match="imagenet-sample"):
        Sample().train(tmp_path)
    with pytest.raises(DataNotFoundError, match="resnet50"):
        Published().network(tmp_path)
