import pytest
import torch
from predictions import CASES, Predictions
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss
from torchmetrics.functional.classification import multiclass_accuracy

from shiftmatch.metrics import accuracy, brier, confidence, log_likelihood

CLOSE = 1e-6
cases = pytest.mark.parametrize("given", CASES.values(), ids=CASES)


@cases
def test_accuracy_is_that_of_scikit_learn(given: Predictions) -> None:
    probabilities, labels = given
    assert accuracy(*given) == pytest.approx(accuracy_score(labels, probabilities.argmax(-1)), abs=CLOSE)


def test_accuracy_is_that_of_torchmetrics() -> None:
    probabilities, labels = CASES["random"]
    theirs = multiclass_accuracy(probabilities, labels, num_classes=10, average="micro")
    assert accuracy(probabilities, labels) == pytest.approx(theirs.item(), abs=CLOSE)


@pytest.mark.parametrize("given", [case for name, case in CASES.items() if name != "one class"])
def test_log_likelihood_is_that_of_scikit_learn(given: Predictions) -> None:
    probabilities, labels = given[0].double(), given[1]  # scikit-learn's floor depends on the precision
    probabilities = probabilities / probabilities.sum(-1, keepdim=True)
    theirs = -log_loss(labels, probabilities.numpy(), labels=range(probabilities.shape[1]))
    assert log_likelihood(probabilities, labels) == pytest.approx(theirs, abs=CLOSE)


@pytest.mark.parametrize("given", [case for name, case in CASES.items() if name != "one class"])
def test_brier_is_that_of_scikit_learn(given: Predictions) -> None:
    probabilities, labels = given[0].double(), given[1]
    probabilities = probabilities / probabilities.sum(-1, keepdim=True)
    classes = range(probabilities.shape[1])
    theirs = brier_score_loss(labels, probabilities.numpy(), labels=classes, scale_by_half=False)
    assert brier(probabilities, labels) == pytest.approx(theirs, abs=CLOSE)


def test_with_one_class_everything_is_right() -> None:
    given = CASES["one class"]
    assert (accuracy(*given), log_likelihood(*given), brier(*given), confidence(*given)) == (1, 0, 0, 1)


def test_a_label_that_was_held_impossible_leaves_the_mean_finite() -> None:
    found = log_likelihood(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
    assert found == pytest.approx(-52 * torch.tensor(2.0).log().item(), rel=1e-6)
