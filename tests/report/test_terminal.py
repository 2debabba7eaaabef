from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.report.terminal import Loss, losses, means_table


def scores(**accuracy: tuple[float, float, float]) -> Scores:
    cells = [("clean", None), ("fog", 1), ("fog", 5)]
    return Scores(
        [
            Score(method, "cifar10-c", *cell, metric, value, 0)
            for method, values in accuracy.items()
            for cell, value in zip(cells, values, strict=True)
            for metric in ("accuracy", "ece")
        ]
    )


def test_means_stand_beside_clean_images_by_severity() -> None:
    table = means_table(scores(plain=(0.9, 0.5, 0.25), ours=(0.9, 0.75, 0.5)), "accuracy")
    assert [column.header for column in table.columns] == ["method", "clean", "severity 1", "severity 5", "mean"]
    assert [list(column.cells) for column in table.columns] == [
        ["plain", "ours"],
        ["90.0", "90.0"],
        ["50.0", "75.0"],
        ["25.0", "50.0"],
        ["37.5", "62.5"],
    ]


def test_other_metrics_are_no_percentages_and_one_severity_needs_no_column() -> None:
    table = means_table(scores(plain=(0.9, 0.5, 0.25)).where(severity=[5, None]), "ece")
    assert [column.header for column in table.columns] == ["method", "clean", "mean"]
    assert list(table.columns[2].cells) == ["0.250"]


def test_losses_are_told_from_the_worst() -> None:
    found = losses(scores(plain=(0.9, 0.5, 0.25), ours=(0.875, 0.25, 0.5)))
    assert [(loss.corruption, loss.severity) for loss in found] == [("fog", 1), ("clean", None)]
    assert found[0] == Loss("ours", "fog", 1, 25.0)
    assert losses(scores(ours=(0.9, 0.5, 0.25))) == []
