"""Comparisons with the paper."""

import pytest
from paper.experiments.claims import beats, beside, mean, top

from shiftmatch.evaluation.scores import Score, Scores


def rows(method: str, *values: float) -> list[Score]:
    """Clean, then two corruptions at severity 1, then the same at 5."""
    cells = [("clean", None), ("fog", 1), ("snow", 1), ("fog", 5), ("snow", 5)]
    return [Score(method, "cifar10-c", *cell, "accuracy", value, 0) for cell, value in zip(cells, values, strict=True)]


SCORES = Scores([*rows("plain", 0.9, 0.8, 0.7, 0.4, 0.2), *rows("better", 0.8, 0.7, 0.7, 0.5, 0.5)])


def test_means_are_over_corruptions_at_one_severity() -> None:
    assert top(SCORES) == 5
    assert mean(SCORES, "plain") == pytest.approx(0.3)
    assert mean(SCORES, "plain", 1) == pytest.approx(0.75)
    assert mean(SCORES, "plain", clean=True) == 0.9


def test_a_method_beats_another_or_does_not() -> None:
    (found,) = beats(SCORES, "better", "plain")
    assert found.agrees
    assert found.ours == "+20.0 points"
    assert "severity 5" in found.what
    (found,) = beats(SCORES, "better", "plain", severity=1)
    assert found.agrees is False
    (found,) = beats(SCORES, "better", "plain", severity=1, margin=0.06)
    assert found.agrees
    assert beats(SCORES, "better", "HMC") == []


def test_numbers_agree_within_what_is_allowed() -> None:
    assert beside("gain", 5.0, 5.9, within=1.0).agrees
    assert beside("gain", 5.0, 6.1, within=1.0).agrees is False
    assert beside("gain", 5.0, 6.1, within=1.0, unit=" points").published == "6.1 points"
