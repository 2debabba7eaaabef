"""Scores that are made up, for tests of what is done with scores."""

from collections.abc import Mapping, Sequence

import numpy as np

from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.metrics.uncertainty import standard_error

METHODS = {"plain": 0.0, "other": 0.1, "ShiftMatch": 0.2}
CORRUPTIONS = {"gaussian_noise": 0.3, "fog": 0.5, "my_own": 0.65}
SITES = ("input", "conv1")


def table(values: dict[str, dict[str, float]], *, metric: str = "accuracy", severity: int | None = 5) -> Scores:
    """Scores from method -> corruption -> value; nobody knows how many images are behind them."""
    return Scores(
        [
            Score(method, "set-c", name, None if name == "clean" else severity, metric, value, 0)
            for method, row in values.items()
            for name, value in row.items()
        ]
    )


def counted(
    right: Mapping[str, Mapping[str, Sequence[bool]]], *, severity: int | None = 5, seed: int = 0, kept: bool = True
) -> Scores:
    """Accuracies from method -> corruption -> which images are right; `kept` says whether the scores keep that."""
    rows, correct = [], {}
    for method, cells in right.items():
        for name, images in cells.items():
            level, found = None if name == "clean" else severity, np.array(images)
            value, stderr = float(found.mean()), standard_error(found)
            rows.append(Score(method, "set-c", name, level, "accuracy", value, seed, len(found), stderr))
            correct[rows[-1].key] = found
    return Scores(rows, {}, correct if kept else {})


def first(count: int, of: int) -> list[bool]:
    """So many images are right, the first ones."""
    return [index < count for index in range(of)]


def everything(*, data: str = "set-c", severities: tuple[int | None, ...] = (1, 3, 5), n: int | None = None) -> Scores:
    """Every kind of row; the method called ShiftMatch loses on clean images and under my_own at severity 1.

    With a number of images `n`, the rows have standard errors, and it is kept which images are right.
    """
    cells = [("clean", None), *((name, severity) for name in CORRUPTIONS for severity in severities)]
    rows = [row for method in METHODS for cell in cells for row in _rows(method, data, *cell)]
    made = {"command": "made up", "settings": {"seed": 0, "sizes": [1, 2]}, "versions": {"torch": "x"}}
    if n is None:
        return Scores(rows, made)
    rows = [row._replace(n=n, stderr=0.3 / n**0.5) for row in rows]
    right = {row.key: np.array(first(round(row.value * n), n)) for row in rows if row.metric == "accuracy"}
    return Scores(rows, made | {"sources": dict.fromkeys(CORRUPTIONS, "made from it with seed 0")}, right)


def _rows(method: str, data: str, corruption: str, severity: int | None) -> list[Score]:
    accuracy = _accuracy(method, corruption, severity)
    values = {"accuracy": accuracy, "ece": 0.4 * (1 - accuracy), "log_likelihood": accuracy - 1, "confidence": 0.9}
    for index, confidence in ((3, 0.25), (13, 0.9)):
        values[f"reliability/{index:02d}/confidence"] = confidence
        values[f"reliability/{index:02d}/accuracy"] = accuracy * confidence
        values[f"reliability/{index:02d}/share"] = 0.5
    if method == "plain":
        values |= {f"shift/{site}": 1 - accuracy + index for index, site in enumerate(SITES)}
    return [Score(method, data, corruption, severity, metric, value, 0) for metric, value in values.items()]


def _accuracy(method: str, corruption: str, severity: int | None) -> float:
    if corruption == "clean":
        return 0.9 - 0.1 * METHODS[method]
    if (corruption, severity) == ("my_own", 1):
        return 0.85 - 0.2 * METHODS[method]
    return 0.9 - (0.9 - CORRUPTIONS[corruption]) * (severity or 5) / 5 + METHODS[method]
