from itertools import pairwise
from math import nan

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from predictions import CASES, Predictions, random_predictions
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss
from torch import Tensor
from torchmetrics.functional.classification import multiclass_accuracy, multiclass_calibration_error

from shiftmatch.errors import InputError
from shiftmatch.metrics import (
    METRICS,
    Metric,
    accuracy,
    brier,
    calibration_error,
    calibration_error_equal_count,
    confidence,
    log_likelihood,
    mean_corruption_error,
    reliability,
)

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


WRONG = {
    "NaN": (torch.tensor([[nan, 1.0]]), torch.tensor([0])),
    "Logits become": (torch.tensor([[3.0, -1.0]]), torch.tensor([0])),
    "a sum of 1": (torch.tensor([[0.3, 0.3]]), torch.tensor([0])),
    "labels from 2 to 2, but probabilities of 2": (torch.tensor([[0.5, 0.5]]), torch.tensor([2])),
    "labels from -1": (torch.tensor([[0.5, 0.5]]), torch.tensor([-1])),
    "labels.flatten": (torch.eye(5), torch.arange(5)[:, None]),
    r"\(100, 2\) and \(50,\)": (torch.tensor([[0.5, 0.5]] * 100), torch.zeros(50, dtype=torch.int64)),
    r"\(100, 2\) and \(1,\)": (torch.tensor([[0.5, 0.5]] * 100), torch.zeros(1, dtype=torch.int64)),
    r"\(3,\) and \(\)": (torch.ones(3), torch.tensor(1)),
    "numbers of classes": (torch.eye(2), torch.tensor([0.0, 1.0])),
    "at least one": (torch.empty(0, 2), torch.empty(0, dtype=torch.int64)),
}


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
@pytest.mark.parametrize(("words", "given"), WRONG.items(), ids=WRONG)
def test_what_cannot_be_scored_is_refused_in_words(metric: Metric, words: str, given: tuple[Tensor, Tensor]) -> None:
    with pytest.raises(InputError, match=words):
        metric(*given)


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_every_metric_takes_half_precision_as_it_comes(metric: Metric) -> None:
    probabilities, labels = random_predictions(100)
    probabilities = (64 * probabilities).round() / 64  # exact in half precision
    probabilities[:, 0] += 1 - probabilities.sum(-1)
    probabilities, labels = probabilities[probabilities[:, 0] >= 0], labels[probabilities[:, 0] >= 0]
    assert len(labels) > 50
    assert metric(probabilities.half(), labels) == metric(probabilities, labels)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32])
def test_labels_of_other_integers_are_the_same(dtype: torch.dtype) -> None:
    probabilities, labels = random_predictions(100)
    assert [metric(probabilities, labels.to(dtype)) for metric in METRICS.values()] == [
        metric(probabilities, labels) for metric in METRICS.values()
    ]


ERRORS = {"fog": [0.1, 0.2, 0.3], "snow": [0.4, 0.5, 0.6]}


def test_it_is_the_mean_ratio_of_the_sums() -> None:
    assert mean_corruption_error(ERRORS, ERRORS) == 1
    assert mean_corruption_error(ERRORS, {"snow": [0.5] * 3, "fog": [0.8] * 3}) == pytest.approx((0.25 + 1) / 2)


@pytest.mark.parametrize("baseline", [{}, {"fog": [0.1]}, {"fog": [0.1], "snow": [0.2] * 3}])
def test_other_cells_are_refused(baseline: dict[str, list[float]]) -> None:
    with pytest.raises(InputError, match="same corruptions at the same severities"):
        mean_corruption_error(ERRORS, baseline)
    with pytest.raises(InputError, match="at least one"):
        mean_corruption_error({}, {})


def test_what_cannot_be_divided_is_refused() -> None:
    with pytest.raises(InputError, match="under fog"):
        mean_corruption_error({"fog": [0.1]}, {"fog": [0.0]})
    with pytest.raises(InputError, match="under fog"):
        mean_corruption_error({"fog": [nan]}, {"fog": [0.5]})


def confidence_and_hits(given: Predictions) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    confidence, predicted = given[0].double().max(-1)
    return confidence.numpy(), (predicted == given[1]).long().numpy()


@cases
def test_the_reliability_curve_is_that_of_scikit_learn(given: Predictions) -> None:
    confidence, hits = confidence_and_hits(given)
    right, sure = calibration_curve(hits, confidence.clip(0, 1), n_bins=15)
    curve = reliability(*given)
    found = {what: [v for name, v in curve.items() if name.endswith(what)] for what in ("accuracy", "confidence")}
    assert found["accuracy"] == pytest.approx(right.tolist(), abs=CLOSE)
    assert found["confidence"] == pytest.approx(sure.tolist(), abs=CLOSE)


@cases
def test_the_error_is_the_mean_gap_of_the_curve(given: Predictions) -> None:
    curve = reliability(*given)
    shares = {name[:2]: share for name, share in curve.items() if name.endswith("share")}
    assert len(shares) == 15
    assert sum(shares.values()) == pytest.approx(1)
    gaps = [share * abs(curve[f"{n}/accuracy"] - curve[f"{n}/confidence"]) for n, share in shares.items() if share]
    assert calibration_error(*given) == pytest.approx(sum(gaps), abs=CLOSE)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("classes", [2, 10, 100])
def test_the_error_is_that_of_torchmetrics(seed: int, classes: int) -> None:
    probabilities, labels = random_predictions(400, classes, seed=seed)
    theirs = multiclass_calibration_error(probabilities, labels, num_classes=classes, n_bins=15, norm="l1")
    assert calibration_error(probabilities, labels) == pytest.approx(theirs.item(), abs=CLOSE)


@pytest.mark.parametrize("name", ["certain", "labels of one class", "one image"])
def test_the_error_is_that_of_torchmetrics_where_it_is_degenerate(name: str) -> None:
    probabilities, labels = CASES[name]
    theirs = multiclass_calibration_error(probabilities, labels, num_classes=probabilities.shape[1], n_bins=15)
    assert calibration_error(probabilities, labels) == pytest.approx(theirs.item(), abs=CLOSE)


def slow_equal_count(given: Predictions, bins: int) -> float:
    """Go through the edges one by one; count the images strictly between two neighbours."""
    confidence, hits = confidence_and_hits(given)
    every = int(np.ceil(len(confidence) / bins))
    edges = [edge for place, edge in enumerate(sorted(confidence)) if place % every == 0] + [max(confidence)]
    error = 0.0
    for low, high in pairwise(edges):
        members = [i for i in range(len(hits)) if low < confidence[i] < high]
        error += abs(sum(confidence[i] - hits[i] for i in members))
    return error / len(hits)


@cases
@pytest.mark.parametrize("bins", [1, 7, 20])
def test_equal_counts_are_those_of_a_slow_loop(given: Predictions, bins: int) -> None:
    assert calibration_error_equal_count(*given, bins=bins) == pytest.approx(slow_equal_count(given, bins), abs=CLOSE)


def test_the_registry_has_both_errors() -> None:
    given = random_predictions()
    assert METRICS["ece"](*given) == calibration_error(*given, bins=15)
    assert METRICS["ece_equal_count"](*given) == calibration_error_equal_count(*given, bins=20)


def test_equal_confidences_are_all_on_the_edge() -> None:
    assert calibration_error_equal_count(torch.full((9, 2), 0.5), torch.zeros(9, dtype=torch.int64)) == 0
