import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from shiftmatch.data.archives import unpack
from shiftmatch.errors import FileFormatError

FILES = {"set/a.npy": b"a" * 1000, "set/deep/b.npy": b"b"}


def tar(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


PACK = {"set.tar": tar, "set.tar.gz": tar, "set.zip": zipped}


@pytest.mark.parametrize("name", PACK)
def test_archives_unpack_into_the_folder_and_leave_nothing_else(tmp_path: Path, name: str) -> None:
    archive, out = PACK[name](tmp_path / name, FILES), tmp_path / "out"
    unpack(archive, out)
    (out / "set" / "a.npy").write_bytes(b"damaged")
    (out / "set" / "mine").write_bytes(b"the user's")
    unpack(archive, out)  # again, over what is there
    (out / "set" / "mine").unlink()  # which is kept
    assert {str(file.relative_to(out)): file.read_bytes() for file in out.rglob("*") if file.is_file()} == FILES
    assert list(out.iterdir()) == [out / "set"]


def test_a_single_compressed_file_loses_its_suffix(tmp_path: Path) -> None:
    (tmp_path / "labels.gz").write_bytes(gzip.compress(b"content"))
    unpack(tmp_path / "labels.gz", tmp_path)
    assert (tmp_path / "labels").read_bytes() == b"content"


@pytest.mark.parametrize("name", PACK)
def test_entries_that_leave_the_folder_are_refused_and_nothing_is_unpacked(tmp_path: Path, name: str) -> None:
    archive, out = PACK[name](tmp_path / name, {"good": b"", "../evil": b"x"}), tmp_path / "out"
    with pytest.raises(FileFormatError, match=str(archive)):
        unpack(archive, out)
    assert not (tmp_path / "evil").exists()
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("name", [*PACK, "labels.gz"])
def test_a_truncated_archive_is_refused_by_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name in PACK:
        PACK[name](path, FILES)
    else:
        path.write_bytes(gzip.compress(bytes(1000)))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3 if name != "set.tar" else 700])
    with pytest.raises(FileFormatError, match=str(path)):
        unpack(path, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
