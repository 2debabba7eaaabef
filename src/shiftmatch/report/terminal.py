"""What an evaluation has found, for the terminal: means by severity, and where a method loses."""

from typing import NamedTuple

from rich.table import Table

from shiftmatch.evaluation.scores import Score, Scores

CLEAN = "clean"
PER_CENT = "accuracy"


class Loss(NamedTuple):
    """A cell in which a method is less accurate than the baseline, and by how much."""

    method: str
    corruption: str
    severity: int | None
    points: float


def means_table(scores: Scores, metric: str) -> Table:
    """The mean over corruptions of a metric: a row for each method; clean images, each severity, and all of them.

    >>> rows = [Score("plain", "cifar10-c", "fog", 5, "accuracy", 0.5, 0)]
    >>> means_table(Scores(rows), "accuracy").row_count
    1
    """
    chosen = scores.where(metric=metric)
    corrupted = Scores([row for row in chosen if row.corruption != CLEAN])
    groups = {CLEAN: chosen.where(corruption=CLEAN)}
    severities = corrupted.values("severity")
    if len(severities) > 1:
        groups |= {f"severity {severity}": corrupted.where(severity=severity) for severity in severities}
    groups |= {"mean": corrupted}
    columns = {name: group.mean(by=("method",)) for name, group in groups.items() if len(group)}
    unit = " in %" if metric == PER_CENT else ""
    table = Table(title=f"{', '.join(chosen.values('data'))}: {metric.replace('_', '-')}{unit}")
    table.add_column("method", no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right")
    for method in chosen.values("method"):
        table.add_row(method, *(_number(column[method,], metric) for column in columns.values()))
    return table


def losses(scores: Scores, baseline: str = "plain") -> list[Loss]:
    """Where methods are less accurate than the baseline, the worst first; points are per cent.

    >>> rows = [Score(name, "d", "fog", 5, "accuracy", value, 0) for name, value in (("plain", 0.5), ("ours", 0.25))]
    >>> losses(Scores(rows))
    [Loss(method='ours', corruption='fog', severity=5, points=25.0)]
    """
    accuracies = scores.where(metric=PER_CENT)
    cells = {(row.data, row.corruption, row.severity): row.value for row in accuracies.where(method=baseline)}

    def loss(row: Score) -> float:
        return 100 * (cells.get((row.data, row.corruption, row.severity), row.value) - row.value)

    found = [Loss(row.method, row.corruption, row.severity, loss(row)) for row in accuracies]
    return sorted((entry for entry in found if entry.points > 0), key=lambda entry: -entry.points)


def _number(value: float, metric: str) -> str:
    return f"{100 * value:.1f}" if metric == PER_CENT else f"{value:.3f}"
