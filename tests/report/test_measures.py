import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_scores import CORRUPTIONS, SITES, everything

from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.metrics.uncertainty import wilson_interval
from shiftmatch.report.measures import MEAN_SHIFT, Bin, Estimate, layer_shifts, measure, reliability

ACCURACY = measure("accuracy")
shares = st.floats(0, 1)


@given(shares, shares)
def test_what_is_shown_adds_up(before: float, after: float) -> None:
    """61.8 -> 82.8 is +21.0, whatever the digits that are not shown."""
    for shown in (ACCURACY, measure("log_likelihood")):
        gain = shown.show_gain(shown.difference(before, after)).removesuffix(" points").replace("\u2212", "-")
        digits = 10**shown.digits
        first, second, third = (
            round(digits * float(text)) for text in (shown.number(before), shown.number(after), gain)
        )
        if abs(shown.scale * before) * digits >= 0.5 and abs(shown.scale * after) * digits >= 0.5:
            assert second - first == third


def test_an_interval_is_shown_only_if_it_is_known() -> None:
    assert ACCURACY.with_interval(Estimate(0.794, 0.785, 0.803)) == "79.4 ± 0.9"
    assert ACCURACY.with_interval(Estimate(0.794)) == "79.4"
    assert ACCURACY.with_interval(None) == "–"
    assert ACCURACY.describe(Estimate(0.794)) == "no interval known"
    known = Estimate(0.794, 0.785, 0.803, n=2000, seeds=(0.79, 0.798))
    assert ACCURACY.describe(known) == "95\u00a0% interval 78.5 to 80.3\u00a0%; 2,000 images; seeds: 79.0, 79.8"


def test_a_small_interval_is_not_none() -> None:
    assert ACCURACY.with_interval(Estimate(0.5, 0.4997, 0.5003)) == "50.0 ± 0.03"


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
