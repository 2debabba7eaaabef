"""Figures in the README are those of the committed results."""

import re
from pathlib import Path

import pytest

from shiftmatch.evaluation.scores import Mean, Scores

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "paper" / "results"
Z = 1.96
NAMES = {"test-time batchnorm": "batchnorm"}
CELL = re.compile(r"\**(?P<value>\d+\.\d)\** ± (?P<half>\d+\.\d)")


def table() -> dict[str, dict[str, tuple[float, float]]]:
    """The headline table: accuracy in % and half its interval, by row and column."""
    lines = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("| ")]
    start = next(i for i, line in enumerate(lines) if "plain" in line)
    cells = [[cell.strip().strip("*") for cell in line.strip("|").split("|")] for line in lines[start:]]
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for row in cells[1:]:
        values = [CELL.fullmatch(cell) for cell in row[1:]]
        if len(row) == len(cells[0]) and any(values):
            found[row[0]] = {
                name: (float(value["value"]), float(value["half"]))
                for name, value in zip(cells[0][1:], values, strict=True)
                if value
            }
    return found


def measured(row: str, method: str) -> Mean:
    network = 32 if "ResNet-32" in row else 20
    file = f"cifar10c-resnet{network}.csv"
    if "posterior" in row:
        file, method = "posterior.csv", "posterior" if method == "plain" else f"posterior + {method}"
    scores = Scores.load(RESULTS / file).where(metric="accuracy", method=method)
    if row.startswith("mean of 16"):
        chosen = scores.where(severity=5)
        assert len(chosen) == 16
    else:
        chosen = scores.where(corruption="clean" if "clean" in row else row.replace(" ", "_"))
    return next(iter(chosen.means(by=("method",)).values()))


def test_the_headline_is_what_was_measured() -> None:
    found = table()
    assert len(found) >= 6
    assert {"plain", "ShiftMatch (paper)", "ShiftMatch: rows and columns", "ShiftMatch: spectrum"} <= set(
        found["mean of 16"]
    )
    for row, by_method in found.items():
        for title, (value, half) in by_method.items():
            mean = measured(row, NAMES.get(title, title))
            assert value == pytest.approx(100 * mean.value, abs=0.05001)
            assert half == pytest.approx(100 * Z * (mean.stderr or 0), abs=0.05001)
