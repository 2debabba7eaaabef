"""What the figure of calibration claims, on made-up scores."""

from paper.experiments.calibration import ERROR, Calibration

from shiftmatch.evaluation.scores import Score, Scores


def made_up(values: dict[str, tuple[float, float]]) -> Scores:
    return Scores(
        [
            Score(name, "cifar10-c", "fog", 5, metric, value, 0)
            for name, pair in values.items()
            for metric, value in zip(("accuracy", ERROR), pair, strict=True)
        ]
    )


def test_the_claims_hold_where_they_are_fulfilled() -> None:
    values = {"SGD": (0.4, 0.4), "ensemble": (0.5, 0.05), "HMC": (0.3, 0.2), "HMC + ShiftMatch": (0.6, 0.1)}
    assert [claim.agrees for claim in Calibration().compare(made_up(values))] == [True, True, True]


def test_the_ensemble_stands_in_for_hmc() -> None:
    values = {"SGD": (0.4, 0.1), "ensemble": (0.5, 0.2), "ensemble + ShiftMatch": (0.6, 0.15)}
    found = Calibration().compare(made_up(values))
    assert [claim.agrees for claim in found] == [True, False, False]
    assert "ensemble + ShiftMatch 60.0" in found[0].ours
