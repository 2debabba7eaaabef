"""What Figures 1, 6 and 10 claim, on scores that are made up to fulfil it."""

from paper.claims import Verdict
from paper.severity import ERROR, Calibration, PerCorruption, SeverityCurves
from paper.training import ENSEMBLE, HMC, KINDS

from shiftmatch.evaluation.scores import Score, Scores

PLAIN = dict(zip(KINDS, (0.5, 0.6, 0.5, 0.4, 0.45), strict=True))
METHODS = {
    **PLAIN,
    **{f"{kind} + ShiftMatch (paper)": value + 0.2 for kind, value in PLAIN.items()},
    f"{HMC} + ShiftMatch (paper)": 0.9,
    f"{HMC} + ShiftMatch (paper) (cifar10.1-v6)": 0.88,
}


def made_up(methods: dict[str, float]) -> Scores:
    cells = [("clean", None), ("fog", 1), ("fog", 5)]
    metrics = ("accuracy", "log_likelihood")
    clean = {HMC: 0.91}
    return Scores(
        [
            Score(
                name, "cifar10-c", *cell, metric, clean.get(name, value) if cell[1] is None else value, 0, 10_000, 0.003
            )
            for name, value in methods.items()
            for cell in cells
            for metric in metrics
        ]
    )


def test_all_claims_hold_where_they_are_fulfilled() -> None:
    found = SeverityCurves().compare(made_up(METHODS))
    assert all(claim.verdict is Verdict.AGREES for claim in found), found
    assert len(found) == 2 * 5 + 2 * 4 + 1 + 1 + 1
    assert found[-1].ours == "-2.0 points"
    assert all(claim.verdict is Verdict.AGREES for claim in PerCorruption().compare(made_up(METHODS)))


def test_claims_about_what_was_not_run_are_not_made() -> None:
    without = {name: value for name, value in METHODS.items() if not name.startswith(HMC)}
    found = SeverityCurves().compare(made_up(without))
    assert len(found) == 2 * 4
    assert not any(claim.what.startswith(HMC) for claim in found)


def test_a_claim_that_does_not_hold_is_seen() -> None:
    worse = METHODS | {f"{ENSEMBLE} + ShiftMatch (paper)": 0.3, f"{HMC} + ShiftMatch (paper) (cifar10.1-v6)": 0.5}
    failed = [claim.what for claim in SeverityCurves().compare(made_up(worse)) if claim.verdict is Verdict.DIFFERS]
    assert len(failed) == 3
    assert "cifar10.1" in failed[-1]
    (_, ensemble, *_) = PerCorruption().compare(made_up(worse))
    assert (ensemble.ours, ensemble.verdict) == ("0 of 1", Verdict.DIFFERS)


def calibrated(values: dict[str, tuple[float, float]]) -> Scores:
    return Scores(
        [
            Score(name, "cifar10-c", "fog", 5, metric, value, 0, 10_000, 0.003)
            for name, pair in values.items()
            for metric, value in zip(("accuracy", ERROR), pair, strict=True)
        ]
    )


def test_calibration_is_compared_pair_by_pair() -> None:
    values = {"SGD": (0.4, 0.4), "ensemble": (0.5, 0.05), "HMC": (0.3, 0.2), "HMC + ShiftMatch (paper)": (0.6, 0.1)}
    found = Calibration().compare(calibrated(values))
    assert len(found) == 3 + 3 + 2
    assert all(claim.verdict is Verdict.AGREES for claim in found), found


def test_the_ensemble_stands_in_for_hmc() -> None:
    values = {"SGD": (0.4, 0.1), "ensemble": (0.5, 0.2), "ensemble + ShiftMatch (paper)": (0.6, 0.15)}
    verdicts = [claim.verdict for claim in Calibration().compare(calibrated(values))]
    assert verdicts == [Verdict.AGREES] * 2 + [Verdict.DIFFERS] * 2 + [Verdict.DIFFERS]
