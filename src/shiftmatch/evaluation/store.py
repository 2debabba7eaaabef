"""Finished cells of a table on disk: one small file for each, found again by what it depends on."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shiftmatch.errors import FileFormatError
from shiftmatch.evaluation.streams import Cell
from shiftmatch.utils.files import atomic_path
from shiftmatch.utils.hashing import content_hash

FORMAT = 1
DIGITS = 16
"""Of the hash in a file's name."""

UNFIT = re.compile(r"[^\w.]+")
"""What the name of a file should not have."""


@dataclass(frozen=True)
class CellFolder:
    """A folder of cells; without a path nothing is kept.

    The name of a file holds a hash of all that its numbers depend on, so that cells of other networks, images or
    settings may lie beside it and are never taken for it.
    """

    path: Path | None
    settings: Mapping[str, Any]

    def load(self, cell: Cell, method: str, depends: str) -> dict[str, float] | None:
        """The numbers of a finished cell by metric; None if it is not there."""
        file = self._file(cell, method, depends)
        if file is None or not file.exists():
            return None
        try:
            return {str(metric): float(value) for metric, value in json.loads(file.read_text())["scores"].items()}
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise FileFormatError(f"{file} is damaged ({error}). Delete it, and it will be computed again.") from error

    def save(self, cell: Cell, method: str, depends: str, scores: Mapping[str, float]) -> None:
        """Keep the numbers of a cell, whole or not at all."""
        file = self._file(cell, method, depends)
        if file is not None:
            record = {"method": method, "corruption": cell[0], "severity": cell[1], "scores": scores}
            with atomic_path(file) as temporary:
                temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    def _file(self, cell: Cell, method: str, depends: str) -> Path | None:
        if self.path is None:
            return None
        key = content_hash([FORMAT, self.settings, cell, method, depends])[:DIGITS]
        corruption, severity = cell
        words = [corruption, "" if severity is None else str(severity), method, key]
        name = "-".join(UNFIT.sub("_", word) for word in words if word)
        return self.path / f"{name}.json"
