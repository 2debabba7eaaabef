"""The tables of docs/choose.md, from the results: accuracy with its interval, for each way to use the package."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from shiftmatch.evaluation.scores import Mean, Scores
from shiftmatch.utils.files import atomic_path

Z = 1.96
"""Standard errors to each side of a 95 % interval."""
PLACE = re.compile(r"<!-- table: (\w+) -->\n.*?<!-- end of table -->", re.DOTALL)


@dataclass(frozen=True)
class Rows:
    """Rows of a table from one file of results: what each method is called; all methods by their own names if empty."""

    file: str
    about: str = ""
    methods: Mapping[str, str] = field(default_factory=dict)


TABLES = {
    "batches": [
        Rows(
            "batch-sizes.csv",
            methods={
                "plain": "plain network, any batch",
                **{f"spectrum, batch {size}": f"`sm.match`, batches of {size}" for size in (1000, 200, 64, 16, 8)},
                "spectrum, one at a time": "`sm.stream`, one image at a time",
                "spectrum, one at a time, changing": "`sm.stream`, the corruption changes every 500 images",
            },
        )
    ],
    "networks": [
        Rows(
            f"cifar10c-resnet{depth}.csv",
            f"ResNet-{depth}, BatchNorm, CIFAR-10-C: ",
            {
                "plain": "plain",
                "batchnorm": "test-time batchnorm",
                "ShiftMatch: spectrum": "`sm.match`",
                "ShiftMatch: auto": '`sm.match(..., strength="auto")`',
            },
        )
        for depth in (20, 32)
    ],
    "posteriors": [Rows("fig4.csv", "FRN ResNet-20, CIFAR-10-C: "), Rows("fig3.csv", "LeNet, MNIST-C: ")],
}
"""Which results each table has. Those without standard errors are left out."""


def write_tables(page: Path, results: Path) -> None:
    """Rewrite what is between the comments of a Markdown page."""
    text = PLACE.sub(lambda found: table(found[1], results), page.read_text(encoding="utf-8"))
    with atomic_path(page) as temporary:
        temporary.write_text(text, encoding="utf-8")


def table(name: str, results: Path) -> str:
    """A table between its comments."""
    rows = [row for source in TABLES[name] for row in rows_of(source, results)]
    head = ["| | corrupted | clean |", "|---|---|---|"] if rows else ["No results with intervals yet."]
    return "\n".join([f"<!-- table: {name} -->", *head, *rows, "<!-- end of table -->"])


def rows_of(source: Rows, results: Path) -> list[str]:
    """A row for each method: its accuracy on corrupted images (at severity 5, where there are several) and clean."""
    if not (path := results / source.file).exists():
        return []
    scores = Scores.load(path).where(metric="accuracy")
    strongest = max((row.severity or 0 for row in scores), default=0) or None
    spoilt = [name for name in scores.values("corruption") if name != "clean"]
    corrupted = scores.where(severity=strongest, corruption=spoilt).means(by=("method",))
    clean = scores.where(corruption="clean").means(by=("method",))
    methods = source.methods or {method: method for (method,) in corrupted}
    return [
        f"| {source.about}{label} | {cell(corrupted[method,])} | {cell(clean.get((method,)))} |"
        for method, label in methods.items()
        if (method,) in corrupted and corrupted[method,].stderr
    ]


def cell(mean: Mean | None) -> str:
    """The mean in %, with half of its interval."""
    return "" if mean is None else f"{100 * mean.value:.1f} ± {100 * Z * (mean.stderr or 0):.1f}"
