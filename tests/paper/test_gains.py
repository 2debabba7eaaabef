"""The published tables of gains."""

from paper.gains import KINDS, PUBLISHED, SEVERITIES, table

from shiftmatch.evaluation.scores import Score, Scores


def test_the_three_published_tables_add_up() -> None:
    matched, batchnorm, rest = PUBLISHED.values()
    for kind in KINDS:
        for whole, *parts in zip(matched[kind], batchnorm[kind], rest[kind], strict=True):
            assert abs(whole - sum(parts)) < 0.05


def test_gains_are_in_points_and_held_against_the_table() -> None:
    values = {"SGD": 0.5, "SGD + ShiftMatch (paper)": 0.62}
    rows = [
        Score(name, "cifar10-c", "fog", s, "accuracy", v, 0, 10_000, 0.003)
        for name, v in values.items()
        for s in SEVERITIES
    ]
    found = table(Scores(rows), "ShiftMatch (paper)", "plain")
    assert [cell.ours for cell in found] == ["12.0 points"] * 5
    assert [cell.published for cell in found] == [
        "2.8 points",
        "5.1 points",
        "7.7 points",
        "10.4 points",
        "13.1 points",
    ]
    assert [cell.verdict.value for cell in found] == ["differs beyond noise"] * 3 + ["cannot tell", "agrees"]
