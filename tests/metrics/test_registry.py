import numpy as np
import pytest
import torch
from predictions import random_predictions

from shiftmatch.errors import InputError
from shiftmatch.metrics import brier
from shiftmatch.metrics.registry import measure, named


def test_parts_are_called_after_their_metric() -> None:
    found = measure("reliability", *random_predictions())
    assert "reliability/14/share" in found
    assert list(measure(brier, *random_predictions())) == ["brier"]


def test_a_function_of_ones_own_is_a_metric() -> None:
    def worst(probabilities: torch.Tensor, labels: torch.Tensor) -> float:
        return probabilities.amax(-1).min().item()

    assert measure(worst, torch.eye(2), torch.tensor([0, 1])) == {"worst": (1.0, None)}


def test_an_unknown_metric_is_answered_with_what_there_is() -> None:
    with pytest.raises(InputError, match="'acuracy'; choose among accuracy, log_likelihood"):
        named("acuracy")


@pytest.mark.parametrize(
    "name", ["accuracy", "log_likelihood", "brier", "confidence", "ece", "aurc", "ece_equal_count"]
)
def test_the_standard_error_is_the_spread_over_other_images(name: str) -> None:
    """Of 60 samples of 300 images each: the mean standard error is the standard deviation of the metric."""
    found = [measure(name, *random_predictions(300, 5, seed=seed))[name] for seed in range(60)]
    spread = np.std([value for value, _ in found], ddof=1)
    stderr = np.mean([stderr for _, stderr in found if stderr is not None])
    assert stderr == pytest.approx(spread, rel=0.3)  # the spread of 60 is known to 9 %
    assert measure(name, *random_predictions())[name] == measure(name, *random_predictions())[name]


def test_one_image_says_nothing_of_the_spread() -> None:
    found = {name: measure(name, *random_predictions(1))[name].stderr for name in ("brier", "ece", "aurc")}
    assert found == {"brier": None, "ece": None, "aurc": None}
