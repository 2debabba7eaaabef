"""Scores: the table that an evaluation yields, one row for each number, and a file that says how it was made."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, final, overload

from shiftmatch.errors import FileFormatError, InputError
from shiftmatch.utils.files import atomic_path

Severity = int | None


class Score(NamedTuple):
    """One number: what `metric` gives for a method on a data set under a corruption at a severity."""

    method: str
    data: str
    corruption: str
    severity: Severity  # None for clean images, and for corruptions that have one severity only
    metric: str
    value: float
    seed: int


@final
@dataclass(frozen=True, eq=False)
class Scores(Sequence[Score]):
    """Tidy rows, with the settings, versions and hashes behind them.

    >>> accuracy = {"fog": 0.5, "snow": 0.7}
    >>> rows = [Score("plain", "cifar10-c", name, 5, "accuracy", value, 0) for name, value in accuracy.items()]
    >>> Scores(rows).mean(by=("method", "metric"))
    {('plain', 'accuracy'): 0.6}
    """

    rows: Sequence[Score]
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @overload
    def __getitem__(self, which: int) -> Score: ...
    @overload
    def __getitem__(self, which: slice) -> "Scores": ...
    def __getitem__(self, which: int | slice) -> "Score | Scores":
        return Scores(self.rows[which], self.provenance) if isinstance(which, slice) else self.rows[which]

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
        kept = [row for row in self.rows if all(getattr(row, name) in choice for name, choice in choices.items())]
        return Scores(kept, self.provenance)

    def values(self, name: str) -> list[Any]:
        """The different values of a field, in the order in which they first come."""
        _check_fields([name])
        return list(dict.fromkeys(getattr(row, name) for row in self.rows))

    def mean(self, by: Sequence[str] = ("method", "metric")) -> dict[tuple[Any, ...], float]:
        """The mean of the values for each combination of the fields in `by`."""
        _check_fields(by)
        groups: dict[tuple[Any, ...], list[float]] = {}
        for row in self.rows:
            groups.setdefault(tuple(getattr(row, name) for name in by), []).append(row.value)
        return {key: fmean(values) for key, values in groups.items()}

    def __add__(self, other: "Scores") -> "Scores":
        return Scores([*self.rows, *other.rows], {**self.provenance, **other.provenance})

    def save(self, path: str | PathLike[str]) -> None:
        """Write `path` (CSV), and beside it, as JSON of the same name, how it was made."""
        with atomic_path(Path(path).with_suffix(".json")) as temporary:
            temporary.write_text(json.dumps(self.provenance, indent=1) + "\n", encoding="utf-8")
        with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(Score._fields)
            writer.writerows(self.rows)

    @staticmethod
    def load(path: str | PathLike[str]) -> "Scores":
        """Read what `save` wrote."""
        with Path(path).open(newline="", encoding="utf-8") as file:
            lines = list(csv.reader(file))
        if not lines or tuple(lines[0]) != Score._fields:
            raise FileFormatError(
                f"{path} holds no scores: expected the columns {', '.join(Score._fields)}, got "
                f"{', '.join(lines[0]) if lines else 'an empty file'}. Scores are what shiftmatch evaluate writes."
            )
        beside = Path(path).with_suffix(".json")
        provenance = json.loads(beside.read_text(encoding="utf-8")) if beside.exists() else {}
        return Scores([_parsed(line, number, path) for number, line in enumerate(lines[1:], start=2)], provenance)


def _parsed(line: Sequence[str], number: int, path: str | PathLike[str]) -> Score:
    try:
        method, data, corruption, severity, metric, value, seed = line
        return Score(method, data, corruption, int(severity) if severity else None, metric, float(value), int(seed))
    except ValueError as error:
        raise FileFormatError(f"Line {number} of {path} is damaged ({error}). Remove it, or evaluate again.") from error


def _check_fields(names: Iterable[str]) -> None:
    if unknown := [name for name in names if name not in Score._fields]:
        raise InputError(f"Scores have no field {unknown[0]!r}; they have {', '.join(Score._fields)}.")
