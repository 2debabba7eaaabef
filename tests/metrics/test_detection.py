import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve
from torch import Tensor

from shiftmatch.metrics import auroc, fpr95, maximum_probability

CLOSE = 1e-6
scores = st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.999, 1.0]) | st.floats(0, 1), min_size=1, max_size=60)


def together(inside: Tensor, outside: Tensor) -> tuple[Tensor, Tensor]:
    return torch.cat([torch.ones(len(inside)), torch.zeros(len(outside))]), torch.cat([inside, outside])


@given(scores, scores)
def test_both_are_those_of_scikit_learn_ties_and_all(inside: list[float], outside: list[float]) -> None:
    known, others = (torch.tensor(values, dtype=torch.float64) for values in (inside, outside))
    truth, score = together(known, others)
    assert auroc(known, others) == pytest.approx(roc_auc_score(truth, score), abs=CLOSE)
    false, true, _ = roc_curve(truth, score, drop_intermediate=False)
    assert fpr95(known, others) == pytest.approx(np.min(false[true >= 0.95]), abs=CLOSE)


def test_kinds_that_are_apart_and_kinds_that_are_alike() -> None:
    low, high = torch.linspace(0, 0.4, 50), torch.linspace(0.6, 1, 30)
    assert (auroc(high, low), fpr95(high, low)) == (1, 0)
    assert (auroc(low, high), fpr95(low, high)) == (0, 1)
    assert auroc(torch.ones(5), torch.ones(9)) == 0.5


def test_the_score_is_the_largest_probability() -> None:
    assert torch.equal(maximum_probability(torch.tensor([[0.2, 0.8], [1.0, 0.0]])), torch.tensor([0.8, 1.0]))
