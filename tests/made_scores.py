"""Scores that are made up, for tests of what is done with scores."""

from shiftmatch.evaluation.scores import Score, Scores

METHODS = {"plain": 0.0, "other": 0.1, "ShiftMatch": 0.2}
CORRUPTIONS = {"gaussian_noise": 0.3, "fog": 0.5, "my_own": 0.65}
SITES = ("input", "conv1")


def table(values: dict[str, dict[str, float]], *, metric: str = "accuracy", severity: int | None = 5) -> Scores:
    """Scores from method -> corruption -> value."""
    return Scores(
        [
            Score(method, "set-c", name, None if name == "clean" else severity, metric, value, 0)
            for method, row in values.items()
            for name, value in row.items()
        ]
    )


def everything(*, data: str = "set-c", severities: tuple[int | None, ...] = (1, 3, 5)) -> Scores:
    """Every kind of row; the method called ShiftMatch loses on clean images and under my_own at severity 1."""
    cells = [("clean", None), *((name, severity) for name in CORRUPTIONS for severity in severities)]
    rows = [row for method in METHODS for cell in cells for row in _rows(method, data, *cell)]
    return Scores(rows, {"command": "made up", "settings": {"seed": 0, "sizes": [1, 2]}, "versions": {"torch": "x"}})


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
