"""Finished cells of a table on disk: one small file for each, found again by what it depends on."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shiftmatch.evaluation.scores import unpack_correct
from shiftmatch.evaluation.streams import Cell
from shiftmatch.metrics.registry import Measured
from shiftmatch.utils.files import atomic_path, parsing, unsafe_characters
from shiftmatch.utils.hashing import content_hash

FORMAT = 2
DIGITS = 16
"""Of the hash in a file's name."""


class CellScores(NamedTuple):
    """What one method has in one cell: numbers by metric, and of each image whether it was right."""

    scores: dict[str, Measured]
    correct: NDArray[np.bool_]


@dataclass(frozen=True)
class CellFolder:
    """A folder of cells; without a path nothing is kept.

    The name of a file holds a hash of all that its numbers depend on, so that cells of other networks, images or
    settings may be in the same folder and are never confused with it.
    """

    path: Path | None
    settings: Mapping[str, Any]

    def load(self, cell: Cell, method: str, depends: str) -> CellScores | None:
        """A finished cell; None if it is not there."""
        file = self._file(cell, method, depends)
        if file is None or not file.exists():
            return None
        with parsing(file, "its scores", "Delete it, and it will be computed again."):
            record = json.loads(file.read_text(encoding="utf-8"))
            scores = {
                str(metric): Measured(float(value), stderr) for metric, (value, stderr) in record["scores"].items()
            }
            packed = np.frombuffer(bytes.fromhex(record["correct"]), np.uint8)
            return CellScores(scores, unpack_correct(packed, record["images"]))

    def save(self, cell: Cell, method: str, depends: str, found: CellScores) -> None:
        """Keep a cell, whole or not at all."""
        file = self._file(cell, method, depends)
        if file is None:
            return
        record = {
            "method": method,
            "corruption": cell[0],
            "severity": cell[1],
            "scores": found.scores,
            "images": len(found.correct),
            "correct": np.packbits(found.correct).tobytes().hex(),
        }
        with atomic_path(file) as temporary:
            temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    def _file(self, cell: Cell, method: str, depends: str) -> Path | None:
        if self.path is None:
            return None
        key = content_hash([FORMAT, self.settings, cell, method, depends])[:DIGITS]
        corruption, severity = cell
        words = [corruption, "" if severity is None else str(severity), method, key]
        return self.path / f"{'-'.join(unsafe_characters.sub('_', word) for word in words if word)}.json"
