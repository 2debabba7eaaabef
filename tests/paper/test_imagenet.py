"""Where photographs and their networks come from."""

from pathlib import Path
from typing import Any

import pytest
import torch
from paper.cifar import first_batches
from paper.imagenet import ImageNet, Published, Sample
from tiny_data import PICTURES, small_network, write_data_sets

from shiftmatch.errors import DataNotFoundError
from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.utils.sequences import LazySequence

pytestmark = pytest.mark.filterwarnings("ignore::shiftmatch.errors.SmallBatchWarning")


def test_the_sample_has_its_classes_in_its_names(tmp_path: Path) -> None:
    write_data_sets(tmp_path)
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


def test_another_network_or_fewer_corruptions_are_not_held_against_the_authors_table() -> None:
    rows = [Score(name, "imagenet-c", "fog", 5, "accuracy", 0.2225, 0, 250, 0.001) for name in ("plain", "batchnorm")]

    def compared(experiment: ImageNet) -> bool:
        return any(
            "severity 5" in claim.what and claim.published != "yes" for claim in experiment.compare(Scores(rows))
        )

    assert compared(ImageNet())
    assert not compared(ImageNet(Sample()))
    assert not compared(ImageNet(corruptions=("fog",)))


def test_statistics_for_batch_batchnorm_are_measured_in_batches_of_the_test_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_data_sets(tmp_path)
    experiment = ImageNet(Sample(), images=6, train=(6,), batch=6, corruptions=("contrast",), severities=(5,))
    sizes: list[int] = []

    def watched(*given: Any, size: int) -> LazySequence[torch.Tensor]:
        sizes.append(size)
        return first_batches(*given, size=size)

    monkeypatch.setattr("paper.imagenet.first_batches", watched)
    monkeypatch.setattr(Sample, "network", lambda self, data: small_network())
    assert "ShiftMatch (paper) 6" in experiment.predictors(tmp_path)
    assert sizes == [6]
