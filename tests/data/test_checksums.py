from pathlib import Path

import pytest

from shiftmatch.data.checksums import checksum, verify
from shiftmatch.errors import FileFormatError


def test_a_changed_byte_is_noticed_and_both_checksums_are_named(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    known = "md5:900150983cd24fb0d6963f7d28e17f72"  # RFC 1321
    assert checksum(path, "md5") == known
    verify(path, known)
    path.write_bytes(b"abd")
    with pytest.raises(FileFormatError, match=rf"{path}.*expected {known}, found {checksum(path, 'md5')}"):
        verify(path, known)
