from hypothesis import given
from hypothesis import strategies as st

from shiftmatch.report.measures import Estimate, measure

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
