import pytest
from made_scores import CORRUPTIONS, SITES, everything

from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.metrics.uncertainty import wilson_interval
from shiftmatch.report.series import MEAN_SHIFT, Bin, layer_shifts, reliability


def rows(corruption: str, severity: int | None, number: int, bin_: Bin) -> list[Score]:
    values = {"confidence": bin_.confidence, "accuracy": bin_.accuracy, "share": bin_.share}
    return [
        Score("plain", "d", corruption, severity, f"reliability/{number:02d}/{part}", value, 0)
        for part, value in values.items()
    ]


def test_bins_are_pooled_as_if_all_predictions_were_one_set() -> None:
    few, many = Bin(0.5, 0.0, 0.25), Bin(0.7, 1.0, 0.75)
    scores = Scores([*rows("fog", 1, 7, few), *rows("snow", 1, 7, many), *rows("clean", None, 7, Bin(0.1, 0.1, 1.0))])
    (pooled,) = reliability(scores)["plain"]
    assert pooled.accuracy == pytest.approx(0.75), "clean images are left out, and sets count by their shares"
    assert pooled.confidence == pytest.approx(0.65)
    assert pooled.share == pytest.approx(0.5)


def test_a_bin_of_few_images_has_an_interval_of_its_own_number() -> None:
    assert Bin(0.9, 1.0, 0.001, n=200).interval == wilson_interval(1, 1)
    assert Bin(0.9, 0.5, 0.5, n=200).interval == wilson_interval(50, 100)
    assert Bin(0.9, 0.5, 0.5).interval is None


def test_empty_bins_are_left_out() -> None:
    nothing = Bin(float("nan"), float("nan"), 0.0)
    scores = Scores([*rows("clean", None, 0, nothing), *rows("clean", None, 14, Bin(0.9, 0.8, 1.0))])
    assert reliability(scores) == {"plain": [Bin(0.9, 0.8, 1.0)]}
    assert reliability(Scores([])) == {}


def test_shifts_are_those_of_the_highest_severity_and_their_mean_comes_first() -> None:
    scores = everything()
    shifts = layer_shifts(scores)
    assert list(shifts) == [MEAN_SHIFT, "clean", *CORRUPTIONS]
    (fog,) = scores.where(corruption="fog", severity=5, metric="shift/conv1")
    assert shifts["fog"]["conv1"] == fog.value
    for site in SITES:
        mean = sum(shifts[name][site] for name in CORRUPTIONS) / len(CORRUPTIONS)
        assert shifts[MEAN_SHIFT][site] == pytest.approx(mean)
