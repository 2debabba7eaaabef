from pathlib import Path

import numpy as np
import pytest
from made_sets import write_cifar10, write_pictures

from shiftmatch.data.corrupted_files import ArrayFiles, PictureFiles
from shiftmatch.data.job import Job
from shiftmatch.errors import InputError


def test_arrays_appear_when_the_last_piece_is_there_and_their_pieces_go(tmp_path: Path) -> None:
    write_cifar10(tmp_path, 20)
    files = ArrayFiles(Job("cifar10-c", "cifar10", str(tmp_path)), tmp_path / "out")
    pieces = files.missing("contrast")
    for done, piece in enumerate(reversed(pieces)):  # in any order
        assert len(files.missing("contrast")) == len(pieces) - done
        files.make(piece)
        assert not (tmp_path / "out" / "contrast.npy").exists()
    files.finish("contrast")
    files.finish("contrast")
    assert files.missing("contrast") == []
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["contrast.npy", "labels.npy"]
    assert len(np.load(tmp_path / "out" / "contrast.npy")) == 5 * 20


def test_pictures_are_missing_until_each_is_there(tmp_path: Path) -> None:
    write_pictures(tmp_path / "imagenet" / "val", classes=1, each=2, size=(224, 224))
    files = PictureFiles(Job("imagenet-c", "imagenet", str(tmp_path)), tmp_path / "out")
    first = files.missing("contrast")[0]
    files.make(first)
    assert first not in files.missing("contrast")
    next((tmp_path / "out").rglob("*.JPEG")).unlink()
    assert first in files.missing("contrast")


def test_pictures_are_made_of_pictures(tmp_path: Path) -> None:
    write_cifar10(tmp_path, 20)
    with pytest.raises(InputError, match="image files"):
        PictureFiles(Job("imagenet-c", "cifar10", str(tmp_path)), tmp_path / "out").missing("contrast")
