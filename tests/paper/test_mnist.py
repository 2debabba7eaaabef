"""HMC beside ensembles of LeNets."""

from pathlib import Path

import torch
from made_sets import make_images, make_labels, write_idx
from paper.mnist import ENSEMBLE, HMC, SAME_PRIOR, Ensemble, MnistPosteriors

from shiftmatch.evaluation.scores import Score, Scores

TINY = Ensemble(members=2, images=20, batch=10, steps=2)


def write_digits(root: Path) -> None:
    write_idx(root / "mnist" / "train-images-idx3-ubyte", make_images(20, 28, 28))
    write_idx(root / "mnist" / "train-labels-idx1-ubyte", make_labels(20))


def test_the_ensemble_under_the_prior_of_hmc_is_trained_once(tmp_path: Path) -> None:
    write_digits(tmp_path)
    first, again = TINY.posterior(tmp_path), TINY.posterior(tmp_path)
    assert len(first) == 2
    assert torch.equal(first[0]["conv1.weight"], again[0]["conv1.weight"])


def test_hmc_is_compared_with_both_ensembles_by_name() -> None:
    names = (HMC, f"{HMC} + ShiftMatch (paper)", f"{HMC} + ShiftMatch: spectrum", ENSEMBLE, SAME_PRIOR)
    cells = ("fog", "translate")
    rows = [Score(name, "mnist-c", cell, None, "accuracy", 0.5, 0, 100, 0.05) for name in names for cell in cells]
    claims = MnistPosteriors().compare(Scores(rows))
    for decay in ("weight decay 8.33", "weight decay 100"):
        assert [claim.published for claim in claims if decay in claim.what] == ["yes", "ours"]
    assert Ensemble().weight_decay == 100.0
