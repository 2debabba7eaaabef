"""Claims of the paper, judged with uncertainty."""

from math import inf

import numpy as np
import pytest
from paper.claims import Verdict, beats, beside, gain, helped, judge, mean, top

from shiftmatch.evaluation.scores import Mean, Score, Scores

AGREES, DIFFERS, CANNOT_TELL = Verdict.AGREES, Verdict.DIFFERS, Verdict.CANNOT_TELL


def rows(method: str, *values: float, n: int | None = 1000, stderr: float | None = 0.01) -> list[Score]:
    """Clean, then two corruptions at severity 1, then the same at 5."""
    cells = [("clean", None), ("fog", 1), ("snow", 1), ("fog", 5), ("snow", 5)]
    return [
        Score(method, "cifar10-c", *cell, "accuracy", value, 0, n, stderr)
        for cell, value in zip(cells, values, strict=True)
    ]


SCORES = Scores([*rows("plain", 0.9, 0.8, 0.7, 0.4, 0.2), *rows("better", 0.8, 0.7, 0.7, 0.5, 0.5)])


def test_means_are_over_corruptions_at_one_severity() -> None:
    assert top(SCORES) == 5
    assert mean(SCORES, "plain").value == pytest.approx(0.3)
    assert mean(SCORES, "plain", 1).value == pytest.approx(0.75)
    assert mean(SCORES, "plain", clean=True).value == 0.9
    assert mean(SCORES, "plain").n == 1000


def test_a_method_beats_another_beyond_noise_or_does_not() -> None:
    (found,) = beats(SCORES, "better", "plain")
    assert (found.verdict, found.ours, found.n) == (AGREES, "20.0 points", 1000)
    assert "severity 5" in found.what
    (found,) = beats(SCORES, "better", "plain", severity=1)
    assert found.verdict is DIFFERS
    (found,) = beats(SCORES, "better", "plain", severity=1, margin=0.06)
    assert found.verdict is CANNOT_TELL
    assert beats(SCORES, "better", "HMC") == []


def test_a_difference_within_noise_is_not_called_agreement() -> None:
    noisy = Scores([*rows("plain", *[0.5] * 5, stderr=0.03), *rows("better", *[0.52] * 5, stderr=0.03)])
    assert beats(noisy, "better", "plain")[0].verdict is CANNOT_TELL
    unknown = Scores([*rows("plain", *[0.5] * 5, stderr=None), *rows("better", *[0.9] * 5, stderr=None)])
    assert beats(unknown, "better", "plain")[0].verdict is CANNOT_TELL


def test_where_images_are_known_the_difference_is_paired() -> None:
    right = np.random.default_rng(0).random(1000) < 0.5
    better = right | (np.arange(1000) < 60)
    pair = [
        Score(name, "set", "fog", 5, "accuracy", x.mean(), 0, 1000, 0.016) for name, x in (("a", better), ("b", right))
    ]
    known = Scores(pair, correct={row.key: x for row, x in zip(pair, (better, right), strict=True)})
    errors = [gain(scores, "a", "b").stderr or 0.0 for scores in (known, Scores(pair))]
    assert errors[0] < errors[1] / 2
    assert beats(known, "a", "b")[0].verdict is AGREES
    assert beats(Scores(pair), "a", "b")[0].verdict is CANNOT_TELL


def test_numbers_agree_if_all_of_the_interval_is_near_enough() -> None:
    def verdict(value: float, stderr: float | None) -> Verdict:
        return beside("gain", Mean(value, stderr, 100), 5.9, within=1.0).verdict

    assert verdict(5.5, 0.1) is AGREES
    assert verdict(4.0, 0.1) is DIFFERS
    assert verdict(5.0, 0.1) is CANNOT_TELL  # 4.9 is the end of what agrees
    assert verdict(5.9, 5.0) is CANNOT_TELL
    assert verdict(5.9, None) is CANNOT_TELL
    shown = beside("gain", Mean(0.055, 0.001, 100), 0.059, within=0.01, scale=100, unit=" points")
    assert (shown.ours, shown.published, shown.interval) == ("5.5 points", "5.9 points", "5.3 to 5.7")


def test_lower_errors_are_better() -> None:
    errors = Scores(
        [Score(name, "set", "fog", 5, "ece", value, 0, 100, 0.01) for name, value in (("a", 0.1), ("b", 0.3))]
    )
    (found,) = beats(errors, "a", "b", metric="ece")
    assert (found.verdict, found.ours) == (AGREES, "-20.0 points")
    assert "lower ece" in found.what


def test_the_corruptions_that_are_helped_are_counted_with_noise() -> None:
    assert helped(SCORES, "better", "plain") == (1, 1, 2)  # fog: -0.1 and +0.1; snow: 0 and +0.3


def test_an_interval_is_held_against_a_range() -> None:
    assert judge(Mean(0.95, 0.001, 10_000), (0.9, inf)) is AGREES
