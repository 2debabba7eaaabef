"""How things are measured: alternating runs in one process, medians, ratios; and how figures are kept and compared."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import torch
from rich.table import Table

P = ParamSpec("P")
T = TypeVar("T")

Cases = dict[str, dict[str, float]]
"""What a subject finds: case -> quantity -> figure."""


@dataclass(frozen=True)
class Settings:
    """What every subject is measured with."""

    threads: int = 2
    runs: int = 7


def measured(subject: str, settings: Settings) -> Cases:
    """The figures of one subject."""
    torch.set_num_threads(settings.threads)
    cases: Cases = import_module(f"benchmarks.{subject}").run(settings)
    return cases


def apart(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a function returns in a process of its own.

    How much memory is new to a process depends on what it has done before, and with it the speed of all that follows.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(function, *args, **kwargs).result()


def medians(runs: Mapping[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """The median seconds of each run, one after the other in turn, so that a busy machine slows all of them.

    One round before that is not counted: it fills caches and allocates.

    >>> sorted(medians({"a": lambda: None, "b": lambda: None}, repetitions=3))
    ['a', 'b']
    """
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for name, run in _rounds(runs, repetitions + 1):
        before = time.perf_counter()
        run()
        taken[name].append(time.perf_counter() - before)
    return {name: statistics.median(values[1:]) for name, values in taken.items()}


def child(code: str, settings: Settings, **environment: str) -> str:
    """What a fresh Python process prints for that code."""
    known = os.environ | {"OMP_NUM_THREADS": str(settings.threads)} | environment
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=known)
    return done.stdout.strip()


def table(found: Mapping[str, Cases]) -> Table:
    """Every figure of every subject."""
    shown = Table("subject", "case", "quantity", title="benchmarks")
    shown.add_column("figure", justify="right")
    for subject, case, quantity, figure in _flat(found):
        shown.add_row(subject, case, quantity, f"{figure:.4g}")
    return shown


def markdown(found: Mapping[str, Cases]) -> str:
    """The same table for a page.

    >>> print(markdown({"a": {"b": {"c": 0.5}}}))
    | subject | case | quantity | figure |
    |---|---|---|---|
    | a | b | c | 0.5 |
    """
    rows = [f"| {' | '.join(key)} | {figure:.4g} |" for *key, figure in _flat(found)]
    return "\n".join(["| subject | case | quantity | figure |", "|---|---|---|---|", *rows])


def comparison(before: Mapping[str, Cases], now: Mapping[str, Cases]) -> Table:
    """Figures side by side, and by how many percent they have changed."""
    shown = Table("subject", "case", "quantity", title="benchmarks: what has changed")
    for column in ("baseline", "now", "change"):
        shown.add_column(column, justify="right")
    for key, old, new in compared(before, now):
        cells = ("" if figure is None else f"{figure:.4g}" for figure in (old, new))
        shown.add_row(*key, *cells, f"{100 * (new / old - 1):+.0f} %" if old and new else "")
    return shown


def compared(
    before: Mapping[str, Cases], now: Mapping[str, Cases]
) -> list[tuple[tuple[str, str, str], float | None, float | None]]:
    """Pairs of figures, also of those that only one side has.

    >>> compared({"a": {"b": {"c": 1.0}}}, {"a": {"b": {"c": 2.0, "d": 3.0}}})
    [(('a', 'b', 'c'), 1.0, 2.0), (('a', 'b', 'd'), None, 3.0)]
    """
    old, new = ({key: figure for *key_, figure in _flat(side) for key in [tuple(key_)]} for side in (before, now))
    return [(key, old.get(key), new.get(key)) for key in old | new]  # type: ignore[misc]


def load(path: Path) -> dict[str, Cases]:
    """The figures in a file that a run has written."""
    found: dict[str, Any] = json.loads(path.read_text())
    return dict(found["result"])


def _rounds(runs: Mapping[str, Callable[[], object]], repetitions: int) -> Iterator[tuple[str, Callable[[], object]]]:
    for _ in range(repetitions):
        yield from runs.items()


def _flat(found: Mapping[str, Cases]) -> Iterator[tuple[str, str, str, float]]:
    for subject, cases in found.items():
        for case, quantities in cases.items():
            for quantity, figure in quantities.items():
                yield subject, case, quantity, figure
