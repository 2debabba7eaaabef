"""What a diagnosis is to do, counted."""

from paper.claims import Verdict
from paper.diagnosis import DISTANCE, FAMILIES, NAMED, WITHIN, Diagnosing

from shiftmatch.corruptions import PAPER
from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.matching.diagnosis import KINDS


def test_every_corruption_of_the_paper_has_one_family() -> None:
    named = [name for members in FAMILIES.values() for name in members]
    assert len(named) == len(set(named))
    assert set(PAPER) <= set(named)
    assert FAMILIES.keys() <= set(KINDS)


def test_what_is_wanted_is_counted() -> None:
    rows = [Score("diagnose", "x", "clean", None, WITHIN, float(i > 3), i, 200) for i in range(100)]
    for corruption, factor in (("fog", 1), ("contrast", -1)):
        for severity in (1, 3, 5):
            cell = ("diagnose", "x", corruption, severity)
            rows += [Score(*cell, DISTANCE, float(factor * severity), 0), Score(*cell, NAMED, 1.0, 0)]
    clean, rising, named = Diagnosing(corruptions=("fog", "contrast")).compare(Scores(rows))
    assert (clean.ours, clean.verdict) == ("96 of 100", Verdict.AGREES)
    assert (rising.ours, rising.verdict) == ("1 of 2", Verdict.DIFFERS)
    assert (named.ours, named.verdict) == ("2 of 2", Verdict.AGREES)
