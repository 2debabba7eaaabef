"""Figures in the README are those of the committed results."""

from pathlib import Path
from statistics import fmean

import pytest

from shiftmatch.evaluation.scores import Scores

ROOT = Path(__file__).parents[1]
METHODS = {
    "plain": "plain",
    "test-time batchnorm": "batchnorm",
    "channel moments": "channel moments",
    "CORAL": "CORAL",
    "ShiftMatch (paper)": "ShiftMatch (paper)",
    "ShiftMatch: rows and columns": "ShiftMatch",  # as the file calls it
}


def table() -> dict[str, dict[str, float]]:
    """The headline table: accuracy in % by row and column."""
    lines = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("| ")]
    start = next(i for i, line in enumerate(lines) if "plain" in line)
    cells = [[cell.strip().strip("*") for cell in line.strip("|").split("|")] for line in lines[start:]]
    rows = [row for row in cells[1:] if len(row) == len(cells[0]) and row[1].replace(".", "").isdigit()]
    return {row[0]: dict(zip(cells[0][1:], map(float, row[1:]), strict=True)) for row in rows}


@pytest.fixture(scope="module")
def scores() -> Scores:
    return Scores.load(ROOT / "paper" / "results" / "augmentation.csv").where(
        data="resnet20 · cifar10-c", metric="accuracy"
    )


def test_the_headline_is_what_was_measured(scores: Scores) -> None:
    found = table()
    assert set(METHODS) <= set(found["clean images"])
    for row, by_method in found.items():
        for title, value in by_method.items():
            assert value == pytest.approx(expected(scores, row, METHODS[title]), abs=0.05001)


def expected(scores: Scores, row: str, method: str) -> float:
    values = scores.where(method=method)
    if row.startswith("mean of 16, severity "):
        values = values.where(severity=int(row.rsplit(maxsplit=1)[-1]))
        assert len(values) == 16
    elif row == "clean images":
        values = values.where(corruption="clean")
    else:
        values = values.where(corruption=row.replace(" ", "_"), severity=5)
    return 100 * fmean(score.value for score in values)
