"""evaluate(): every method on every corruption at every severity, one table of scores."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from math import ceil
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from shiftmatch.errors import InputError, ShiftMatchError, UnhashableError
from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.evaluation.store import CellFolder, CellScores
from shiftmatch.evaluation.streams import CLEAN, Cell, batches, gather, parse
from shiftmatch.evaluation.suites import Suite
from shiftmatch.matching.average import Average
from shiftmatch.matching.memory import StreamModel
from shiftmatch.matching.stream import AutoStreamModel
from shiftmatch.metrics.registry import Metric, measure, named
from shiftmatch.models.preprocessing import Preprocessing
from shiftmatch.utils.files import versions
from shiftmatch.utils.hashing import content_hash
from shiftmatch.utils.parallel import mapping, restoring_grad_mode, track
from shiftmatch.utils.processes import gather_objects, map_over_processes

Predictor: TypeAlias = Callable[..., Any]
"""Images as a network takes them in; probabilities out, or an output with `.logits`, as transformers have it."""

Preprocess: TypeAlias = Callable[[Tensor], Any]
"""Pixels from 0 to 255 in; out comes what the methods take: a tensor, or a dict such as {"pixel_values": tensor}."""

SAMPLE = 8
"""Of images that lie in files: so many tell one data set from another of the same name."""


@runtime_checkable
class Episodic(Protocol):
    """A predictor that changes with what it sees."""

    def reset(self) -> None:
        """Forget it."""


@restoring_grad_mode()
def evaluate(
    methods: Mapping[str, Predictor],
    suite: Suite,
    metrics: Sequence[str | Metric] = ("accuracy",),
    *,
    preprocess: Preprocess | None = None,
    batch_size: int = 1000,
    stream: str | None = None,
    include_clean: bool = True,
    folder: str | PathLike[str] | None = None,
    workers: int = 1,
    device: str | torch.device | None = None,
    data: str | None = None,
    note: Mapping[str, Any] | None = None,
    keep_correct: bool = True,
    across_processes: bool = False,
    progress: bool = True,
) -> Scores:
    """Score methods under every corruption of a suite, at every severity.

    Images come in batches of nearly equal size. One batch is in memory at a time, for all methods. A method that learns
    from what it sees begins anew in each cell, and so does a stream in an average. With a `folder` a run resumes after
    an interruption; what a cell depends on is in its name, so methods whose content cannot be told are refused then.

    Args:
        methods: name -> what takes images and returns probabilities, such as `shiftmatch.average` returns.
        suite: what to be tested on, such as `shiftmatch.suites.cifar10_c()`.
        metrics: names or functions of `shiftmatch.metrics`.
        preprocess: how pixels become inputs; they are divided by 255 unless it is given.
        batch_size: images that are predicted together, at most.
        stream: how images come, if not in the order of the suite: "iid", "mixture:0.5", "dirichlet:0.1".
        include_clean: whether to score clean images too.
        folder: where finished cells are kept.
        workers: processes that share the cells, one thread each; a script that asks for several calls this below `if
            __name__ == "__main__":`.
        device: where to run; that of a network unless given, the CPU for other methods.
        data: what the table calls the suite.
        note: settings of yours, kept with the table.
        keep_correct: whether to keep which images were right, for paired tests.
        across_processes: whether the cells are spread over the processes of torch.distributed; each gets the whole
            table.
        progress: whether to show a bar.

    >>> from shiftmatch.matching.average import average
    >>> from shiftmatch.data.images import Labelled
    >>> clean = Labelled(torch.zeros(10, 3, 32, 32, dtype=torch.uint8), torch.arange(10), "zeros", "made up")
    >>> suite = Suite("cifar10-c", clean, corruptions=("brightness",), severities=(5,))
    >>> network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10))
    >>> scores = evaluate({"plain": average([network])}, suite, include_clean=False)
    >>> scores.mean(), scores[0].n, round(scores[0].stderr, 3)
    ({('plain', 'accuracy'): 0.1}, 10, 0.095)
    """
    _check(methods, metrics, batch_size, workers, stream)
    prepare = Preprocessing() if preprocess is None else preprocess
    settings = _settings(suite, metrics, prepare, batch_size, stream)
    depends = {name: _content(name, predict, must=folder is not None) for name, predict in methods.items()}
    store = CellFolder(None, settings) if folder is None else _store(Path(folder), settings, suite, metrics, prepare)
    job = _Job(dict(methods), depends, suite, tuple(metrics), prepare, batch_size, stream, device, store)
    cells = [*([CLEAN] if include_clean else []), *suite.cells()]
    done = {cell: job.stored(cell) for cell in cells}
    rest = [cell for cell in cells if len(done[cell]) < len(methods)]

    def compute(rest: Sequence[Cell]) -> list[dict[str, CellScores]]:
        with mapping(max(1, min(workers, len(rest))), job) as run:
            label, show = f"evaluating {suite.name}", progress and bool(rest)
            return list(track(run(_Job.compute, rest), label, total=len(rest), show=show))

    if across_processes:  # all do what is not on the disk of the first one
        rest, done = gather_objects((rest, done))[0]
    done |= zip(rest, map_over_processes(compute, rest) if across_processes else compute(rest), strict=True)
    rows = [
        Score(method, data or suite.name, *cell, metric, value, suite.seed, len(suite), stderr)
        for cell in cells
        for method in methods
        for metric, (value, stderr) in done[cell][method].scores.items()
    ]
    shown = settings | {"corruptions": list(suite.corruptions), "severities": list(suite.severities)}
    sources = {corruption: suite.origin(corruption) for corruption in suite.corruptions}
    record = {"settings": shown, "sources": sources, "methods": depends, "versions": versions(), "note": note or {}}
    correct = {row.key: done[row.corruption, row.severity][row.method].correct for row in rows} if keep_correct else {}
    return Scores(rows, {"evaluation": record}, correct)


@dataclass(frozen=True, eq=False)
class _Job:
    """All that is needed to compute a cell, in this process or in another."""

    methods: dict[str, Predictor]
    depends: dict[str, str]
    suite: Suite
    metrics: tuple[str | Metric, ...]
    preprocess: Preprocess
    batch_size: int
    stream: str | None
    device: str | torch.device | None
    store: CellFolder

    def stored(self, cell: Cell) -> dict[str, CellScores]:
        """What is on disk of a cell, by method."""
        found = {name: self.store.load(cell, name, self._depends(cell, name)) for name in self.methods}
        return {name: scores for name, scores in found.items() if scores is not None}

    def compute(self, cell: Cell) -> dict[str, CellScores]:
        """What is on disk, and what is not."""
        found = self.stored(cell)
        index, cells = _plan(self.suite, cell, self.stream)
        labels = self.suite.labels[index]
        rest = {name: predict for name, predict in self.methods.items() if name not in found}
        for name, p in self._predict(rest, index, cells).items():
            with _naming(name):
                scores = {k: v for metric in self.metrics for k, v in measure(metric, p, labels).items()}
            correct = np.empty(len(index), np.bool_)
            correct[index.numpy()] = (p.argmax(-1) == labels).numpy()  # in the order of the suite
            found[name] = CellScores(scores, correct)
            self.store.save(cell, name, self._depends(cell, name), found[name])
        return found

    def _depends(self, cell: Cell, method: str) -> str:
        origin = "" if cell == CLEAN else self.suite.origin(cell[0])
        return f"{self.depends[method]} {origin}"

    def _predict(
        self, methods: Mapping[str, Predictor], index: Int64[Tensor, "n"], cells: Sequence[Cell]
    ) -> dict[str, Float[Tensor, "n _"]]:
        """What every method says of all images; those of one batch are in memory at a time."""
        for predict in methods.values():
            if isinstance(predict, Episodic):
                predict.reset()
            if isinstance(predict, Average) and isinstance(predict.parts, list | tuple):  # others build members anew
                for member in predict.parts:
                    if isinstance(member, StreamModel | AutoStreamModel):
                        member.reset()
        found: dict[str, list[Tensor]] = {name: [] for name in methods}
        for places in torch.arange(len(index)).tensor_split(ceil(len(index) / self.batch_size)):
            pixels = gather(self.suite, index[places], [cells[place] for place in places.tolist()])
            inputs = self.preprocess(pixels)
            for name, predict in methods.items():
                with _naming(name), torch.no_grad():
                    found[name].append(probabilities(predict, inputs, len(pixels), self.device))
        return {name: torch.cat(parts) for name, parts in found.items()}


def probabilities(
    predict: Predictor, inputs: Any, images: int, device: str | torch.device | None = None
) -> Float[Tensor, "b _"]:
    """What a predictor says of a batch, on the CPU; logits of an output that has them become probabilities."""
    if device is None and isinstance(predict, nn.Module):
        device = next((tensor.device for tensor in predict.parameters()), None)
    if isinstance(inputs, Mapping):
        given = {name: _moved(part, device) for name, part in inputs.items()}
        output = predict(**given) if isinstance(predict, nn.Module) else predict(given)
    else:
        output = predict(_moved(inputs, device))
    logits = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    p = output if logits is None else logits.softmax(-1)
    if not isinstance(p, Tensor) or p.ndim != 2 or len(p) != images:
        came = f"a tensor of shape {tuple(p.shape)}" if isinstance(p, Tensor) else type(p).__name__
        raise InputError(
            f"Expected the probabilities of {images} images, one row for each; got {came}. A method takes a batch of "
            "images and returns probabilities: shiftmatch.average([network]) makes one of a network."
        )
    return p.detach().cpu()


def _moved(part: Any, device: str | torch.device | None) -> Any:
    return part.to(device) if isinstance(part, Tensor) and device is not None else part


@contextmanager
def _naming(method: str) -> Iterator[None]:
    """Errors inside say which method they come from."""
    try:
        yield
    except ShiftMatchError as error:
        raise type(error)(f"{method}: {error}") from None


def _store(
    folder: Path, settings: dict[str, Any], suite: Suite, metrics: Sequence[str | Metric], prepare: Preprocess
) -> CellFolder:
    """The folder of cells that depend on these settings, and on a hash of what settings cannot express."""
    images = suite.clean.images
    some = images if isinstance(images, Tensor) else images[torch.arange(0, len(images), ceil(len(images) / SAMPLE))]
    known = [suite.labels, some, [named(metric) for metric in metrics], prepare, versions()]
    return CellFolder(folder, settings | {"hidden": content_hash(known)})


def _content(name: str, predict: Predictor, *, must: bool) -> str:
    try:
        with _naming(name):
            return content_hash(predict)
    except UnhashableError:
        if must:
            raise
        return "not known"


def _plan(suite: Suite, cell: Cell, name: str | None) -> tuple[Int64[Tensor, "n"], Sequence[Cell]]:
    """The order of the images, and the cell that each is taken from."""
    if name is None:
        return torch.arange(len(suite)), [cell] * len(suite)
    if cell == CLEAN:
        return batches(name, suite, seed=suite.seed).index, [cell] * len(suite)
    planned = batches(name, suite, seed=suite.seed, corruptions=cell[0], severity=cell[1])
    return planned.index, planned.cells


def _check(
    methods: Mapping[str, Predictor],
    metrics: Sequence[str | Metric],
    batch_size: int,
    workers: int,
    stream: str | None,
) -> None:
    if not methods or not metrics:
        raise InputError("There is nothing to evaluate; pass at least one method and one metric.")
    if batch_size < 1:
        raise InputError(f"A batch has at least one image, not {batch_size}.")
    if workers < 1:
        raise InputError(f"workers must be 1 or more, not {workers}.")
    known: dict[str, Metric] = {}
    for name, metric in map(named, metrics):
        if known.setdefault(name, metric) is not metric:
            raise InputError(f"Two metrics are called {name!r}; give their functions names (__name__) of their own.")
    if stream is not None:
        parse(stream)


def _settings(
    suite: Suite, metrics: Sequence[str | Metric], preprocess: Preprocess, batch_size: int, stream: str | None
) -> dict[str, Any]:
    """What all numbers depend on, as far as it can be written down."""
    prepared = repr(preprocess) if is_dataclass(preprocess) else getattr(preprocess, "__qualname__", "a function")
    return {
        "suite": suite.name,
        "clean": suite.clean.name,
        "images": len(suite),
        "seed": suite.seed,
        "batch size": batch_size,
        "stream": stream or "in order",
        "metrics": [named(metric)[0] for metric in metrics],
        "preprocess": prepared,
    }
