"""Scores from files, and the pictures beside them."""

from collections.abc import Sequence
from pathlib import Path

from shiftmatch.errors import DataNotFoundError, InputError
from shiftmatch.evaluation.scores import Score, Scores

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
    for scores in every.values():
        rows |= dict.fromkeys(scores)
    _check_agreement(list(rows))
    return Scores(list(rows), {path.stem: scores.provenance for path, scores in every.items()})


def pictures_beside(paths: Sequence[Path]) -> list[Path]:
    """The pictures that lie beside the files, named as they are."""
    places = (path.with_name(f"{path.stem}{PICTURE}.png") for path in dict.fromkeys(paths))
    return [place for place in places if place.is_file()]


def _check_agreement(rows: Sequence[Score]) -> None:
    """No cell has two values: their mean would be nobody's result."""
    known: dict[Score, float] = {}
    for row in rows:
        cell = row._replace(value=0.0)
        if known.setdefault(cell, row.value) != row.value:
            where = (
                f"{row.method} on {row.data}, {row.corruption}, severity {row.severity}, {row.metric}, seed {row.seed}"
            )
            raise InputError(
                f"The files disagree: {where} is {known[cell]:g} in one and {row.value:g} in another. "
                "Report them separately, or give their data different names."
            )
