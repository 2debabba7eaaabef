from math import nan

import pytest

from shiftmatch.errors import InputError
from shiftmatch.metrics import mean_corruption_error

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
