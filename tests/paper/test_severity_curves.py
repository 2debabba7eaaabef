"""What Figure 1 claims, on scores that are made up to fulfil it."""

from paper.experiments.networks import ENSEMBLE, HMC, KINDS
from paper.experiments.severity_curves import PerCorruption, SeverityCurves

from shiftmatch.evaluation.scores import Score, Scores

PLAIN = dict(zip(KINDS, (0.5, 0.6, 0.5, 0.4, 0.45), strict=True))
METHODS = {
    **PLAIN,
    **{f"{kind} + ShiftMatch": value + 0.2 for kind, value in PLAIN.items()},
    f"{HMC} + ShiftMatch": 0.9,
    f"{HMC} + ShiftMatch (cifar10.1-v6)": 0.88,
}


def made_up(methods: dict[str, float]) -> Scores:
    cells = [("clean", None), ("fog", 1), ("fog", 5)]
    metrics = ("accuracy", "log_likelihood")
    clean = {HMC: 0.91}
    return Scores(
        [
            Score(name, "cifar10-c", *cell, metric, clean.get(name, value) if cell[1] is None else value, 0)
            for name, value in methods.items()
            for cell in cells
            for metric in metrics
        ]
    )


def test_all_claims_hold_where_they_are_fulfilled() -> None:
    found = SeverityCurves().compare(made_up(METHODS))
    assert all(claim.agrees for claim in found), [claim for claim in found if not claim.agrees]
    assert len(found) == 2 * 5 + 2 * 4 + 1 + 1 + 1
    assert found[-1].ours == "2.0 points"
    assert all(claim.agrees for claim in PerCorruption().compare(made_up(METHODS)))


def test_claims_about_what_was_not_run_are_not_made() -> None:
    without = {name: value for name, value in METHODS.items() if HMC not in name}
    found = SeverityCurves().compare(made_up(without))
    assert len(found) == 2 * 4
    assert not any(HMC in claim.what for claim in found)


def test_a_claim_that_does_not_hold_is_seen() -> None:
    worse = METHODS | {f"{ENSEMBLE} + ShiftMatch": 0.3, f"{HMC} + ShiftMatch (cifar10.1-v6)": 0.5}
    failed = [claim.what for claim in SeverityCurves().compare(made_up(worse)) if not claim.agrees]
    assert len(failed) == 3
    assert "CIFAR-10.1" in failed[-1]
    (_, ensemble, *_) = PerCorruption().compare(made_up(worse))
    assert ensemble.ours == "0 of 1"
    assert ensemble.agrees is False
