"""Images of another kind."""

from pathlib import Path

import torch
from paper.claims import Verdict
from paper.detection import AUROC, Detection, _colour, detect
from torch import Tensor

from shiftmatch.evaluation.scores import Score, Scores
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


def test_images_that_are_far_from_training_are_told_although_the_network_is_sure(tmp_path: Path) -> None:
    bright, dark = (torch.full((20, 3, 32, 32), value, dtype=torch.uint8) for value in (200, 20))

    def sure(x: Tensor) -> Tensor:
        return torch.tensor([0.9, 0.1]).expand(len(x), 2)

    methods, sets = {"net": sure, "net + matched": sure, "other": sure}, {"a": bright, "b": dark}
    rows = detect(methods, sets, Preprocessing(), 8, tmp_path, distances={"net": lambda x: 1 / x.mean((1, 2, 3))})
    found = {row.method: row.value for row in rows if row.metric == AUROC}
    assert found == {
        **dict.fromkeys(methods, 0.5),
        "net, by familiarity": 1.0,
        "net + matched, by familiarity": 1.0,
    }
    scores = Scores([row._replace(method=row.method.replace("matched", "ShiftMatch: spectrum")) for row in rows])
    (harm, kept) = Detection().compare(scores)
    assert "does little harm" in harm.what
    assert (kept.ours, "not below that of net" in kept.what) == ("0.500", True)


def test_networks_that_know_other_sets_are_not_mixed_up() -> None:
    """`ensemble` is one of CIFAR networks here and one of LeNets there, and both are shown clothes."""
    values = {
        ("cifar10 · fashion-mnist", "ensemble"): 0.6,
        ("cifar10 · fashion-mnist", "ensemble + ShiftMatch (paper)"): 0.8,
        ("mnist · fashion-mnist", "ensemble"): 0.99,
    }
    rows = [Score(name, sets, "clean", None, AUROC, value, 0, 500, 0.01) for (sets, name), value in values.items()]
    (claim,) = Detection().compare(Scores(rows))
    assert (claim.ours, claim.verdict) == ("0.200", Verdict.AGREES)
    assert claim.what.startswith("cifar10 · fashion-mnist")


def test_the_published_table_is_of_networks_that_know_cifar10() -> None:
    def compared(sets: str) -> int:
        return len(Detection().compare(Scores([Score("SGD", sets, "clean", None, AUROC, 0.713, 0, 500, 0.001)])))

    assert (compared("cifar10 · svhn"), compared("mnist · svhn")) == (1, 0)
