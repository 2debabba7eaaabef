from math import nan

import pytest
import torch
from predictions import random_predictions
from torch import Tensor

from shiftmatch.errors import InputError
from shiftmatch.metrics import METRICS, Metric, auroc, fpr95

WRONG = {
    "NaN": (torch.tensor([[nan, 1.0]]), torch.tensor([0])),
    "Logits become": (torch.tensor([[3.0, -1.0]]), torch.tensor([0])),
    "a sum of 1": (torch.tensor([[0.3, 0.3]]), torch.tensor([0])),
    "labels from 2 to 2, but probabilities of 2": (torch.tensor([[0.5, 0.5]]), torch.tensor([2])),
    "labels from -1": (torch.tensor([[0.5, 0.5]]), torch.tensor([-1])),
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
    metric(probabilities.half(), labels)


@pytest.mark.parametrize("metric", [auroc, fpr95])
def test_scores_that_are_no_numbers_are_refused(metric: type) -> None:
    with pytest.raises(InputError, match="1 of 2 scores of images outside are NaN"):
        metric(torch.ones(3), torch.tensor([nan, 1.0]))
    with pytest.raises(InputError, match="no scores of images inside"):
        metric(torch.empty(0), torch.ones(3))
