from itertools import pairwise

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from predictions import CASES, Predictions, random_predictions
from sklearn.calibration import calibration_curve
from torchmetrics.functional.classification import multiclass_calibration_error

from shiftmatch.metrics import METRICS, calibration_error, calibration_error_equal_count, reliability

CLOSE = 1e-6
cases = pytest.mark.parametrize("given", CASES.values(), ids=CASES)


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
