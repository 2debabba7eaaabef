"""evaluate(): every method on every corruption at every severity, one table of scores."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from math import ceil
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import torch
from jaxtyping import Int64
from torch import Tensor

from shiftmatch.errors import InputError
from shiftmatch.evaluation.predicting import Predictor, Preprocess, naming, predict_all
from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.evaluation.store import CellFolder
from shiftmatch.evaluation.streams import CLEAN, Cell, gather
from shiftmatch.evaluation.streams import stream as planned_stream
from shiftmatch.evaluation.suites import Suite
from shiftmatch.metrics.registry import Metric, measure, named
from shiftmatch.models.preprocessing import Preprocessing
from shiftmatch.shapes import Pixels
from shiftmatch.utils.hashing import content_hash
from shiftmatch.utils.parallel import mapping, one_thread
from shiftmatch.utils.progress import track
from shiftmatch.utils.provenance import versions

Found: TypeAlias = dict[str, dict[str, float]]
"""Of one cell: method -> metric -> number."""


def evaluate(
    methods: Mapping[str, Predictor],
    suite: Suite,
    metrics: Sequence[str | Metric] = ("accuracy",),
    *,
    preprocess: Preprocess | None = None,
    batch: int = 1000,
    stream: str | None = None,
    include_clean: bool = True,
    folder: str | PathLike[str] | None = None,
    workers: int = 1,
    data: str | None = None,
    note: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> Scores:
    """Score methods (name -> images in, probabilities out) under every corruption of a suite, at every severity.

    Images are prepared by `preprocess` (default: divided by 255) and come in the order of the suite, in batches of
    nearly equal size, at most `batch`; or as `shiftmatch.stream` has it, such as "mixture:0.5". One batch is in memory
    at a time, for all methods; a method that learns from what it sees begins anew in each cell.

    With a `folder` every finished cell is kept there, and a run that was killed goes on where it was. `workers`
    processes share the cells. Each works in one thread, so that the scores do not depend on their number; a script
    that asks for several calls this below `if __name__ == "__main__":`. `data` is what the table calls the suite,
    `note` is kept with it.

    >>> from shiftmatch.matching.average import average
    >>> from shiftmatch.data.images import Labelled
    >>> clean = Labelled(torch.zeros(10, 3, 32, 32, dtype=torch.uint8), torch.arange(10), "zeros", "made up")
    >>> suite = Suite("cifar10-c", clean, corruptions=("brightness",), severities=(5,))
    >>> network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10))
    >>> evaluate({"plain": average([network])}, suite, include_clean=False).mean()
    {('plain', 'accuracy'): 0.1}
    """
    _check(methods, metrics, batch)
    prepare = Preprocessing() if preprocess is None else preprocess
    settings = _settings(suite, metrics, prepare, batch, stream)
    depends = {name: content_hash(predict) for name, predict in methods.items()}
    hidden = content_hash([suite.labels, [named(metric) for metric in metrics], prepare, versions()])
    store = CellFolder(None if folder is None else Path(folder), settings | {"hidden": hidden})
    job = _Job(dict(methods), depends, suite, tuple(metrics), prepare, batch, stream, store)
    cells = [*([CLEAN] if include_clean else []), *suite.cells()]
    done = {cell: job.stored(cell) for cell in cells}
    rest = [cell for cell in cells if len(done[cell]) < len(methods)]
    with one_thread(), mapping(max(1, min(workers, len(rest))) if workers > 0 else workers, job) as run:
        computed = track(run(_compute, rest), f"evaluating {suite.name}", total=len(rest), show=progress and bool(rest))
        done |= zip(rest, computed, strict=True)
    rows = [
        Score(method, data or suite.name, *cell, metric, value, suite.seed)
        for cell in cells
        for method in methods
        for metric, value in done[cell][method].items()
    ]
    shown = settings | {"corruptions": list(suite.corruptions), "severities": list(suite.severities)}
    sources = {corruption: suite.origin(corruption) for corruption in suite.corruptions}
    record = {"settings": shown, "sources": sources, "methods": depends, "versions": versions(), "note": note or {}}
    return Scores(rows, {"evaluation": record})


@dataclass(frozen=True, eq=False)
class _Job:
    """All that is needed to compute a cell, in this process or in another."""

    methods: dict[str, Predictor]
    depends: dict[str, str]
    suite: Suite
    metrics: tuple[str | Metric, ...]
    preprocess: Preprocess
    batch: int
    stream: str | None
    store: CellFolder

    def stored(self, cell: Cell) -> Found:
        """What is on disk of a cell."""
        found = {name: self.store.load(cell, name, self._depends(cell, name)) for name in self.methods}
        return {name: scores for name, scores in found.items() if scores is not None}

    def compute(self, cell: Cell) -> Found:
        """What is on disk, and what is not."""
        found = self.stored(cell)
        rest = {name: predict for name, predict in self.methods.items() if name not in found}
        probabilities, labels = predict_all(rest, self._batches(cell), self.preprocess)
        for name, p in probabilities.items():
            with naming(name):
                found[name] = {k: v.value for metric in self.metrics for k, v in measure(metric, p, labels).items()}
            self.store.save(cell, name, self._depends(cell, name), found[name])
        return found

    def _depends(self, cell: Cell, method: str) -> str:
        origin = "" if cell == CLEAN else self.suite.origin(cell[0])
        return f"{self.depends[method]} {origin}"

    def _batches(self, cell: Cell) -> Iterator[tuple[Pixels, Int64[Tensor, "b"]]]:
        index, cells = _plan(self.suite, cell, self.stream)
        for places in torch.arange(len(index)).tensor_split(ceil(len(index) / self.batch)):
            pixels = gather(self.suite, index[places], [cells[place] for place in places.tolist()])
            yield pixels, self.suite.labels[index[places]]


def _compute(job: _Job, cell: Cell) -> Found:
    return job.compute(cell)


def _plan(suite: Suite, cell: Cell, name: str | None) -> tuple[Int64[Tensor, "n"], Sequence[Cell]]:
    """The order of the images, and the cell that each is taken from."""
    if name is None:
        return torch.arange(len(suite)), [cell] * len(suite)
    if cell == CLEAN:
        return planned_stream(name, suite, seed=suite.seed).index, [cell] * len(suite)
    planned = planned_stream(name, suite, seed=suite.seed, corruptions=cell[0], severity=cell[1])
    return planned.index, planned.cells


def _check(methods: Mapping[str, Predictor], metrics: Sequence[str | Metric], batch: int) -> None:
    if not methods or not metrics:
        raise InputError("There is nothing to evaluate; pass at least one method and one metric.")
    if batch < 1:
        raise InputError(f"A batch has at least one image, not {batch}.")
    for metric in metrics:
        named(metric)


def _settings(
    suite: Suite, metrics: Sequence[str | Metric], preprocess: Preprocess, batch: int, stream: str | None
) -> dict[str, Any]:
    """What all numbers depend on, as far as words can say it."""
    prepared = repr(preprocess) if is_dataclass(preprocess) else getattr(preprocess, "__qualname__", "a function")
    return {
        "suite": suite.name,
        "clean": suite.clean.name,
        "images": len(suite),
        "seed": suite.seed,
        "batch": batch,
        "stream": stream or "in order",
        "metrics": [named(metric)[0] for metric in metrics],
        "preprocess": prepared,
    }
