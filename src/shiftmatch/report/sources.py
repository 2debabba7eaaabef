"""Where scores come from: their files, the pictures beside those, and the account of how they were made."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftmatch.errors import DataNotFoundError, InputError
from shiftmatch.evaluation.scores import Key, Score, Scores
from shiftmatch.report.grid import PARTS

PICTURE = ".before-after"
"""What follows the name of the scores in the name of their picture."""


def open_scores(paths: Sequence[Path]) -> Scores:
    """The scores of one or several files as one table; of several, each keeps its account of how it was made."""
    for path in paths:
        if not path.is_file():
            raise DataNotFoundError(f"There is no file {path}. Give CSV files that shiftmatch evaluate wrote.")
    every = {path: Scores.load(path) for path in dict.fromkeys(paths)}
    if len(every) == 1:
        return next(iter(every.values()))
    rows: dict[Score, None] = {}
    correct: dict[Key, NDArray[np.bool_]] = {}
    for scores in every.values():
        rows |= dict.fromkeys(scores)
        correct |= scores.correct
    _check_agreement(list(rows))
    return Scores(list(rows), {path.stem: scores.provenance for path, scores in every.items()}, correct)


def pictures_beside(paths: Sequence[Path]) -> list[Path]:
    """The pictures that lie beside the files, named as they are."""
    places = (path.with_name(f"{path.stem}{PICTURE}.png") for path in dict.fromkeys(paths))
    return [place for place in places if place.is_file()]


def made_here(scores: Scores) -> str:
    """Whether corrupted images were made rather than read from the published files; nothing if that is not known."""
    origins = [origin for sources in _mappings("sources", scores.provenance) for origin in sources.values()]
    made = sum("made" in str(origin) for origin in origins)
    if not made:
        return ""
    return "corruptions made here" if made == len(origins) else f"{made} of {len(origins)} corruptions made here"


def protocol(scores: Scores) -> list[tuple[str, str]]:
    """What was measured, then what the scores' file says of how: a name and a value each."""
    measured = {
        "data": scores.values("data"),
        "methods": scores.values("method"),
        "metrics": [metric for metric in scores.values("metric") if PARTS not in metric],
        "seeds": scores.values("seed"),
        "scores": len(scores),
    }
    return [*_flat("", measured), *_flat("", scores.provenance)]


def _check_agreement(rows: Sequence[Score]) -> None:
    """No cell has two values: their mean would be nobody's result."""
    known: dict[Score, float] = {}
    for row in rows:
        cell = row._replace(value=0.0, n=None, stderr=None)
        if known.setdefault(cell, row.value) != row.value:
            where = (
                f"{row.method} on {row.data}, {row.corruption}, severity {row.severity}, {row.metric}, seed {row.seed}"
            )
            raise InputError(
                f"The files disagree: {where} is {known[cell]:g} in one and {row.value:g} in another. "
                "Report them separately, or give their data different names."
            )


def _mappings(name: str, entries: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Everything of that name, at any depth: merged files keep one account each."""
    for key, value in entries.items():
        if isinstance(value, Mapping):
            yield from [value] if key == name else _mappings(name, value)


def _flat(prefix: str, entries: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Nested entries under their full names.

    >>> list(_flat("", {"settings": {"seed": 0, "sizes": [1, 2]}, "command": "x"}))
    [('settings: seed', '0'), ('settings: sizes', '1; 2'), ('command', 'x')]
    """
    for key, value in entries.items():
        name = f"{prefix}: {key}" if prefix else str(key)
        if isinstance(value, Mapping):
            yield from _flat(name, value)
        else:
            yield name, _text(value)


def _text(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(map(_text, value))
    return str(value)
