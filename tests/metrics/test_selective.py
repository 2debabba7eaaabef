from itertools import permutations

import pytest
import torch
from predictions import CASES, Predictions

from shiftmatch.metrics import accuracy, aurc, risk_at_coverage, risk_coverage

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
