"""Images of another kind."""

from pathlib import Path

import torch
from paper.experiments.detection import _colour, detect
from torch import Tensor

from shiftmatch.models.preprocessing import Preprocessing


def test_grey_digits_become_images_like_those_of_cifar() -> None:
    digits = torch.randint(0, 256, (3, 1, 28, 28), dtype=torch.uint8)
    assert _colour(digits).shape == (3, 3, 32, 32)
    assert torch.equal(_colour(digits)[:, 0], _colour(digits)[:, 2])
    photographs = torch.randint(0, 256, (3, 3, 32, 32), dtype=torch.uint8)
    assert torch.equal(_colour(photographs), photographs)


def test_a_network_that_is_surer_of_what_it_knows_tells_all_apart(tmp_path: Path) -> None:
    bright, dark = (torch.full((20, 3, 32, 32), value, dtype=torch.uint8) for value in (200, 20))

    def predict(x: Tensor) -> Tensor:
        sure = x.mean((1, 2, 3))
        return torch.stack([sure, 1 - sure], 1)

    def unsure(x: Tensor) -> Tensor:
        return torch.full((len(x), 2), 0.5)

    rows = detect({"sure": predict, "unsure": unsure}, {"a": bright, "b": dark}, Preprocessing(), 8, tmp_path)
    found = {(row.method, row.metric): row.value for row in rows}
    assert (found["unsure", "auroc"], found["unsure", "fpr95"]) == (0.5, 1.0)
    assert found["sure", "auroc"] == 0.0  # 200/255 is less sure than 1 − 20/255
    assert {row.data for row in rows} == {"a · b"}
    assert len(list((tmp_path / "confidences").iterdir())) == 4
