from itertools import permutations
from math import nan

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from predictions import CASES, Predictions
from sklearn.metrics import roc_auc_score, roc_curve
from torch import Tensor

from shiftmatch.errors import InputError
from shiftmatch.metrics import (
    accuracy,
    aurc,
    auroc,
    fpr95,
    maximum_probability,
    risk_at_coverage,
    risk_coverage,
)

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


@pytest.mark.parametrize("metric", [auroc, fpr95])
def test_scores_that_are_no_numbers_are_refused(metric: type) -> None:
    with pytest.raises(InputError, match="1 of 2 scores of images outside are NaN"):
        metric(torch.ones(3), torch.tensor([nan, 1.0]))
    with pytest.raises(InputError, match="no scores of images inside"):
        metric(torch.empty(0), torch.ones(3))


cases = pytest.mark.parametrize("given", CASES.values(), ids=CASES)


@cases
def test_with_everything_predicted_the_risk_is_the_error(given: Predictions) -> None:
    assert risk_at_coverage(*given)[-1].item() == pytest.approx(1 - accuracy(*given))
    assert risk_coverage(*given)["100"] == pytest.approx(1 - accuracy(*given))


def test_without_ties_it_is_a_loop_over_the_surest() -> None:
    probabilities, labels = CASES["random"]
    confidence, predicted = probabilities.max(-1)
    order = sorted(range(len(labels)), key=lambda i: -confidence[i].item())
    errors = [int(predicted[i] != labels[i]) for i in order]
    expected = [sum(errors[:kept]) / kept for kept in range(1, len(errors) + 1)]
    assert risk_at_coverage(probabilities, labels).tolist() == pytest.approx(expected)
    assert aurc(probabilities, labels) == pytest.approx(sum(expected) / len(expected))
    assert risk_coverage(probabilities, labels)["030"] == pytest.approx(expected[149])


def test_with_ties_it_is_the_mean_over_all_orders() -> None:
    hits = [1, 0, 0, 1]  # as sure as each other, after one that is surer
    probabilities = torch.tensor([[0.9, 0.1], *[[0.6, 0.4]] * 4])
    labels = torch.tensor([1, *(1 - hit for hit in hits)])
    risks = []
    for order in permutations(hits):
        errors = [1, *(1 - hit for hit in order)]
        risks.append([sum(errors[:kept]) / kept for kept in range(1, 6)])
    expected = torch.tensor(risks, dtype=torch.float64).mean(0)
    torch.testing.assert_close(risk_at_coverage(probabilities, labels), expected)
