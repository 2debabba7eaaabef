import pytest
import torch
from predictions import random_predictions

from shiftmatch.errors import InputError
from shiftmatch.metrics import brier
from shiftmatch.metrics.registry import named, numbers


def test_parts_are_called_after_their_metric() -> None:
    found = numbers("reliability", *random_predictions())
    assert "reliability/14/share" in found
    assert list(numbers(brier, *random_predictions())) == ["brier"]


def test_a_function_of_ones_own_is_a_metric() -> None:
    def worst(probabilities: torch.Tensor, labels: torch.Tensor) -> float:
        return probabilities.amax(-1).min().item()

    assert numbers(worst, torch.eye(2), torch.tensor([0, 1])) == {"worst": 1.0}


def test_an_unknown_metric_is_answered_with_what_there_is() -> None:
    with pytest.raises(InputError, match="'acuracy'; choose among accuracy, log_likelihood"):
        named("acuracy")
