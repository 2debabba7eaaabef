from pathlib import Path

import pytest

from shiftmatch.data.records import Record
from shiftmatch.errors import FileFormatError


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = Record({"a.tar": "https://mirror"}, {"a.npy": "sha256:00"})
    record.write("mnist", tmp_path)
    assert Record.read("mnist", tmp_path) == record
    assert Record.read("cifar10", tmp_path) == Record()


@pytest.mark.parametrize("text", ["{", "[1]", '{"urls": {}}'])
def test_a_damaged_record_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / ".records").mkdir()
    (tmp_path / ".records" / "mnist.json").write_text(text)
    with pytest.raises(FileFormatError, match=r"mnist\.json is not a download record"):
        Record.read("mnist", tmp_path)
