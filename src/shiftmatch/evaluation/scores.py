"""Scores: the table that an evaluation yields, with files that say how it was made and which images were right."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from math import fsum, sqrt
from os import PathLike
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias, final, overload

import numpy as np
import torch
from numpy.typing import NDArray

from shiftmatch.errors import FileFormatError, InputError
from shiftmatch.metrics.uncertainty import Difference, mean_standard_error, normal_difference, paired_difference
from shiftmatch.utils.files import atomic_path, parsing
from shiftmatch.utils.tensor_files import load_tensors, save_tensors

KIND, FORMAT = "per-image correctness", 1
"""The kind of the file with which images were right, and its newest version."""

Severity: TypeAlias = int | None

CLEAN, ACCURACY = "clean", "accuracy"
"""The corruption of clean images; the metric that is the mean of `correct`."""


class Key(NamedTuple):
    """The cell that per-image correctness belongs to."""

    method: str
    data: str
    corruption: str
    severity: Severity
    seed: int


class Score(NamedTuple):
    """One number: what `metric` gives for a method on a data set under a corruption at a severity."""

    method: str
    data: str
    corruption: str
    severity: Severity  # None for clean images, and for corruptions that have one severity only
    metric: str
    value: float
    seed: int
    n: int | None = None  # images behind the value
    stderr: float | None = None  # its standard error; None if unknown

    @property
    def key(self) -> Key:
        """Its cell in `Scores.correct`."""
        return Key(self.method, self.data, self.corruption, self.severity, self.seed)


BESIDE = (".json", ".safetensors")
"""Endings of the files that come with a table: how it was made, and which images were right."""

OLD_FIELDS = Score._fields[:7]
"""Tables without n and stderr are read too."""


class Mean(NamedTuple):
    """A mean over rows, its standard error (None if unknown) and the number of different images behind it."""

    value: float
    stderr: float | None
    n: int | None


Correct: TypeAlias = Mapping[Key, NDArray[np.bool_]]


@final
@dataclass(frozen=True, eq=False)
class Scores(Sequence[Score]):
    """Tidy rows, with the settings, versions and hashes behind them.

    Args:
        rows: one number each, with its method, data, corruption, severity, metric and seed.
        provenance: how they were made.
        correct: of each image of a cell, in the order of the data set, whether a method was right, so that methods can
            be compared image by image: (method, data, corruption, severity, seed) -> one bool for each image.

    >>> accuracy = {"fog": 0.5, "snow": 0.7}
    >>> rows = [Score("plain", "cifar10-c", name, 5, "accuracy", value, 0) for name, value in accuracy.items()]
    >>> Scores(rows).mean(by=("method", "metric"))
    {('plain', 'accuracy'): 0.6}
    """

    rows: Sequence[Score]
    provenance: Mapping[str, Any] = field(default_factory=dict)
    correct: Correct = field(default_factory=dict)

    @overload
    def __getitem__(self, which: int) -> Score: ...
    @overload
    def __getitem__(self, which: slice) -> "Scores": ...
    def __getitem__(self, which: int | slice) -> "Score | Scores":
        return self._with(self.rows[which]) if isinstance(which, slice) else self.rows[which]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Score]:
        return iter(self.rows)

    def where(self, **wanted: Any) -> "Scores":
        """The rows whose fields have the wanted values: `scores.where(metric="accuracy", severity=5)`.

        A list, tuple or set of values stands for any of them.
        """
        _check_fields(wanted)
        choices = {name: value if isinstance(value, list | tuple | set) else (value,) for name, value in wanted.items()}
        return self._with([row for row in self.rows if all(getattr(row, name) in choices[name] for name in choices)])

    def values(self, name: str) -> list[Any]:
        """The different values of a field, in the order in which they first come."""
        _check_fields([name])
        return list(dict.fromkeys(getattr(row, name) for row in self.rows))

    def mean(self, by: Sequence[str] = ("method", "metric")) -> dict[tuple[Any, ...], float]:
        """The mean of the values for each combination of the fields in `by`."""
        return {key: fmean(row.value for row in rows) for key, rows in self._groups(by).items()}

    def means(self, by: Sequence[str] = ("method", "metric")) -> dict[tuple[Any, ...], Mean]:
        """`mean`, with standard errors.

        Cells of one data set show the same images, so their errors are not independent: that of a mean accuracy
        comes from the mean correctness of every image. Where that is not known it is at most the mean of the errors
        of the cells, which is what stands there. Data sets are independent.

        >>> rows = [Score("plain", "set", name, 5, "accuracy", 0.5, 0, 100, 0.05) for name in ("fog", "snow")]
        >>> Scores(rows).means()
        {('plain', 'accuracy'): Mean(value=0.5, stderr=0.05, n=100)}
        """
        return {key: self._mean(rows) for key, rows in self._groups(by).items()}

    def difference(self, method: str, baseline: str) -> Difference | None:
        """How much more often `method` is right than `baseline`, in the mean of all cells that both have.

        Tested image by image; None if no cell has the correctness of both. Choose cells with `where` before.
        """
        pairs: dict[tuple[str, int], list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]] = {}
        for key, right in self.correct.items():
            other = self.correct.get(key._replace(method=baseline))
            if key.method == method and other is not None and len(other) == len(right):
                pairs.setdefault((key.data, len(right)), []).append((right, other))
        blocks = [paired_difference(*map(np.stack, zip(*block, strict=True))) for block in pairs.values()]
        if len(blocks) < 2:
            return blocks[0] if blocks else None
        shares = [len(block) / sum(map(len, pairs.values())) for block in pairs.values()]  # data sets are independent
        mean = fsum(share * block.mean for share, block in zip(shares, blocks, strict=True))
        stderr = sqrt(fsum((share * block.stderr) ** 2 for share, block in zip(shares, blocks, strict=True)))
        return normal_difference(mean, stderr)

    def gains(self, method: str, baseline: str = "plain") -> list[dict[str, str]]:
        """Accuracy gained in percentage points with its 95 % interval: clean, and at each severity, of each data set.

        For the card of a pack of statistics: `statistics.save_pretrained(folder, gains=scores.gains("shiftmatch"))`.
        """
        accuracies, found = self.where(metric=ACCURACY), []
        groups: dict[str, list[Score]] = {}
        for row in accuracies:
            corrupted = "corrupted" if row.severity is None else f"severity {row.severity}"
            groups.setdefault(f"{row.data}, {CLEAN if row.corruption == CLEAN else corrupted}", []).append(row)
        for name, rows in groups.items():
            cells = self._with(rows)
            gain, means = cells.difference(method, baseline), cells.mean(by=("method",))
            if gain is None:
                continue
            plain, matched = (f"{100 * means[(which,)]:.1f}" for which in (baseline, method))
            shown = {"data": name, "metric": "accuracy, %", "plain": plain, "matched": matched}
            interval = f"{100 * gain.low:+.1f} to {100 * gain.high:+.1f}"
            found.append(shown | {"gain": f"{100 * gain.mean:+.1f}", "interval": interval})
        return found

    def __add__(self, other: "Scores") -> "Scores":
        """Rows of both; where both say something else of how they were made, the second is kept as `name (2)`."""
        provenance = dict(self.provenance)
        for name, record in other.provenance.items():
            known = [kept for kept in provenance if kept == name or kept.startswith(f"{name} (")]
            if all(provenance[kept] != record for kept in known):
                provenance[_free(name, provenance)] = record
        return Scores([*self.rows, *other.rows], provenance, {**self.correct, **other.correct})

    def save(self, path: str | PathLike[str]) -> None:
        """Write `path` (CSV), and beside it how it was made (.json) and which images were right (.safetensors)."""
        if Path(path).suffix in BESIDE:
            raise InputError(f"{path} is no name for a table; take {Path(path).with_suffix('.csv').name}.")
        with atomic_path(Path(path).with_suffix(".json")) as temporary:
            temporary.write_text(json.dumps(self.provenance, indent=1) + "\n", encoding="utf-8")
        _save_correct(Path(path).with_suffix(".safetensors"), self.correct)
        with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(Score._fields)
            writer.writerows(self.rows)

    @staticmethod
    def load(path: str | PathLike[str]) -> "Scores":
        """Read what `save` wrote, of this version or of one that knew no standard errors."""
        try:
            with Path(path).open(newline="", encoding="utf-8") as file:
                lines = list(csv.reader(file))
        except (UnicodeDecodeError, csv.Error) as error:
            raise FileFormatError(f"{path} holds no scores: it is no text ({error}).") from error
        if not lines or tuple(lines[0]) not in (Score._fields, OLD_FIELDS):
            raise FileFormatError(
                f"{path} holds no scores: expected the columns {', '.join(Score._fields)}, got "
                f"{', '.join(lines[0]) if lines else 'an empty file'}. Scores are what shiftmatch evaluate writes."
            )
        beside = Path(path).with_suffix(".json")
        provenance = _load_provenance(beside) if beside.exists() else {}
        width = len(lines[0])
        rows = [_parsed(line, width, number, path) for number, line in enumerate(lines[1:], start=2)]
        return Scores(rows, provenance, _load_correct(Path(path).with_suffix(".safetensors")))

    def _with(self, rows: Sequence[Score]) -> "Scores":
        keys = {row.key for row in rows}
        return replace(self, rows=rows, correct={key: value for key, value in self.correct.items() if key in keys})

    def _groups(self, by: Sequence[str]) -> dict[tuple[Any, ...], list[Score]]:
        _check_fields(by)
        groups: dict[tuple[Any, ...], list[Score]] = {}
        for row in self.rows:
            groups.setdefault(tuple(getattr(row, name) for name in by), []).append(row)
        return groups

    def _mean(self, rows: Sequence[Score]) -> Mean:
        blocks: dict[tuple[str, int | None], list[Score]] = {}
        for row in rows:
            blocks.setdefault((row.data, row.n), []).append(row)
        value = fmean(row.value for row in rows)
        errors = [self._block_error(block) for block in blocks.values()]
        images = [n for _, n in blocks]
        known = [error * len(block) for error, block in zip(errors, blocks.values(), strict=True) if error is not None]
        stderr = sqrt(fsum(error**2 for error in known)) / len(rows) if len(known) == len(blocks) else None
        return Mean(value, stderr, None if None in images else sum(n or 0 for n in images))

    def _block_error(self, rows: Sequence[Score]) -> float | None:
        """Of the mean over rows that show the same images."""
        if len(rows) == 1:
            return rows[0].stderr
        right = [self.correct[row.key] for row in rows if row.metric == ACCURACY and row.key in self.correct]
        if len(right) == len(rows):
            return mean_standard_error(right)
        known = [row.stderr for row in rows if row.stderr is not None]
        return fmean(known) if len(known) == len(rows) else None


def _free(name: str, taken: Mapping[str, Any]) -> str:
    return name if name not in taken else next(new for i in count(2) if (new := f"{name} ({i})") not in taken)


def _save_correct(path: Path, correct: Correct) -> None:
    if not correct:
        path.unlink(missing_ok=True)  # of another table that had this name
        return
    tensors = {str(i): torch.from_numpy(np.packbits(right)) for i, right in enumerate(correct.values())}
    header = {"cells": [list(key) for key in correct], "images": [len(right) for right in correct.values()]}
    save_tensors(path, tensors, kind=KIND, version=FORMAT, header=header)


def _load_provenance(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} does not say how its scores were made ({error}). Remove it.") from error
    if not isinstance(found, dict):
        raise FileFormatError(f"{path} does not say how its scores were made: it holds {found!r:.40}. Remove it.")
    return found


def _load_correct(path: Path) -> Correct:
    if not path.exists():
        return {}
    tensors, header = load_tensors(path, kind=KIND, version=FORMAT)
    with parsing(path, "what it should hold", "Remove it."):
        cells = list(zip(header["cells"], header["images"], strict=True))
        return {Key(*key): unpack_correct(tensors[str(i)].numpy(), images) for i, (key, images) in enumerate(cells)}


def unpack_correct(bits: NDArray[np.uint8], count: int) -> NDArray[np.bool_]:
    """Of each of `count` images whether it was right, from as many bits."""
    if not 0 <= count <= 8 * bits.size:
        raise ValueError(f"{count} images in {bits.size} bytes")
    return np.unpackbits(bits, count=count).astype(np.bool_)


def _parsed(line: Sequence[str], width: int, number: int, path: str | PathLike[str]) -> Score:
    try:
        words = dict(zip(Score._fields[:width], line, strict=True))
        given: dict[str, Any] = {name: parse(words[name]) for name, parse in _PARSE.items()}
        optional = {name: parse(words[name]) for name, parse in _PARSE_OPTIONAL.items() if words.get(name)}
        return Score(**{"severity": None, **given, **optional})
    except ValueError as error:
        raise FileFormatError(f"Line {number} of {path} is damaged ({error}). Remove it, or evaluate again.") from error


_PARSE = {"method": str, "data": str, "corruption": str, "metric": str, "value": float, "seed": int}
_PARSE_OPTIONAL = {"severity": int, "n": int, "stderr": float}


def _check_fields(names: Iterable[str]) -> None:
    if unknown := [name for name in names if name not in Score._fields]:
        raise InputError(f"Scores have no field {unknown[0]!r}; they have {', '.join(Score._fields)}.")
