from pathlib import Path

import numpy as np
import pytest

from shiftmatch.errors import FileFormatError
from shiftmatch.evaluation.store import CellFolder, CellScores
from shiftmatch.metrics.registry import Measured

CELL = ("fog", 5)
HALF = CellScores({"accuracy": Measured(0.5, 0.1)}, np.array([True, False]))


def test_a_cell_comes_back_with_every_digit(tmp_path: Path) -> None:
    folder = CellFolder(tmp_path / "cells", {"batch": 100})
    scores = {"accuracy": Measured(1 / 3, 2**0.5), "ece": Measured(0.1 + 0.2, None)}
    correct = np.arange(11) % 3 == 0
    assert folder.load(CELL, "ShiftMatch: input only", "net") is None
    folder.save(CELL, "ShiftMatch: input only", "net", CellScores(scores, correct))
    found = folder.load(CELL, "ShiftMatch: input only", "net")
    assert found is not None
    assert found.scores == scores
    assert np.array_equal(found.correct, correct)
    (file,) = (tmp_path / "cells").iterdir()
    assert file.name.startswith("fog-5-ShiftMatch_input_only-")


def test_it_is_found_for_nothing_else(tmp_path: Path) -> None:
    folder = CellFolder(tmp_path, {"batch": 100})
    folder.save(CELL, "plain", "net", HALF)
    assert folder.load(("fog", 4), "plain", "net") is None
    assert folder.load(CELL, "other", "net") is None
    assert folder.load(CELL, "plain", "other net") is None
    assert CellFolder(tmp_path, {"batch": 200}).load(CELL, "plain", "net") is None


def test_without_a_folder_nothing_is_kept() -> None:
    folder = CellFolder(None, {})
    folder.save(CELL, "plain", "net", HALF)
    assert folder.load(CELL, "plain", "net") is None


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    folder = CellFolder(tmp_path, {})
    folder.save(CELL, "plain", "net", HALF)
    (file,) = tmp_path.iterdir()
    file.write_text("{")
    with pytest.raises(FileFormatError, match=r"fog-5-plain-\w+.json lacks a part of its scores.*Delete it"):
        folder.load(CELL, "plain", "net")
