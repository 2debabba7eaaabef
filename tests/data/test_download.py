import errno
import gzip
import hashlib
import io
import random
import tarfile
import zipfile
from pathlib import Path

import pytest
from mirror import mirror

from shiftmatch.data.download import (
    CHUNK,
    PROVENANCE,
    Record,
    checksum,
    download,
    read_provenance,
    unpack,
    verify,
)
from shiftmatch.errors import DataNotFoundError, FileFormatError

CONTENT = random.Random(0).randbytes(3 * CHUNK + 17)
CHECKSUM = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
REFUSED = "http://127.0.0.1:9"  # the discard port: nothing listens there


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


def test_a_file_arrives_with_the_bytes_it_was_sent(tmp_path: Path) -> None:
    with mirror({"set.bin": CONTENT}) as server:
        assert download([f"{server.url}/set.bin"], tmp_path / "set.bin", checksum=CHECKSUM) == f"{server.url}/set.bin"
    assert (tmp_path / "set.bin").read_bytes() == CONTENT
    assert list(tmp_path.iterdir()) == [tmp_path / "set.bin"]


def test_a_broken_transfer_goes_on_where_it_broke(tmp_path: Path) -> None:
    with mirror({"set.bin": CONTENT}, cuts=(CHUNK + 5, 100)) as server:
        download([f"{server.url}/set.bin"], tmp_path / "set.bin", checksum=CHECKSUM)
        assert [wanted for _, wanted in server.asked] == [None, f"bytes={CHUNK + 5}-", f"bytes={CHUNK + 105}-"]
    assert (tmp_path / "set.bin").read_bytes() == CONTENT


def test_a_later_call_goes_on_with_what_an_earlier_one_got(tmp_path: Path) -> None:
    with mirror({"set.bin": CONTENT}, cuts=(10, 10, 10)) as server:
        with pytest.raises(DataNotFoundError, match="too early"):
            download([f"{server.url}/set.bin"], tmp_path / "set.bin", checksum=CHECKSUM)
        assert not (tmp_path / "set.bin").exists()
        download([f"{server.url}/set.bin"], tmp_path / "set.bin", checksum=CHECKSUM)
        assert server.asked[-1] == ("set.bin", "bytes=30-")
    assert (tmp_path / "set.bin").read_bytes() == CONTENT


def test_a_mirror_that_cannot_resume_sends_everything_again(tmp_path: Path) -> None:
    with mirror({"set.bin": CONTENT}, cuts=(1000,), ranges=False) as server:
        download([f"{server.url}/set.bin"], tmp_path / "set.bin", checksum=CHECKSUM)
    assert (tmp_path / "set.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("left_behind", [CONTENT, CONTENT + b"more", b"of another file", b""])
def test_whatever_an_earlier_call_left_behind_the_result_is_right(tmp_path: Path, left_behind: bytes) -> None:
    (tmp_path / "set.bin.part").write_bytes(left_behind)
    with mirror({"set.bin": CONTENT}) as server:
        download([f"{server.url}/set.bin"], tmp_path / "set.bin", checksum=CHECKSUM)
    assert (tmp_path / "set.bin").read_bytes() == CONTENT


def test_wrong_bytes_at_the_last_attempt_are_refused_too(tmp_path: Path) -> None:
    (tmp_path / "set.bin.part").write_bytes(b"of another file")
    with mirror({"set.bin": CONTENT}, cuts=(5, 5)) as server:
        with pytest.raises(DataNotFoundError, match="expected sha256:"):
            download([f"{server.url}/set.bin"], tmp_path / "set.bin", checksum=CHECKSUM)
        download([f"{server.url}/set.bin"], tmp_path / "set.bin", checksum=CHECKSUM)
    assert (tmp_path / "set.bin").read_bytes() == CONTENT


def test_wrong_bytes_are_refused_and_not_kept(tmp_path: Path) -> None:
    with mirror({"set.bin": b"something else"}) as server:
        with pytest.raises(DataNotFoundError, match=f"expected {CHECKSUM}, found sha256:"):
            download([f"{server.url}/set.bin"], tmp_path / "set.bin", checksum=CHECKSUM)
        assert len(server.asked) == 1
    assert list(tmp_path.iterdir()) == []


def test_the_next_mirror_is_tried_when_one_is_gone_lacks_the_file_or_has_other_bytes(tmp_path: Path) -> None:
    with mirror({}) as empty, mirror({"set.bin": b"?"}) as wrong, mirror({"set.bin": CONTENT}) as good:
        urls = [f"{server}/set.bin" for server in (REFUSED, empty.url, wrong.url, good.url)]
        assert download(urls, tmp_path / "set.bin", checksum=CHECKSUM) == urls[-1]
    assert (tmp_path / "set.bin").read_bytes() == CONTENT


def test_without_network_the_message_says_where_to_put_the_file(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "set.bin"
    with pytest.raises(DataNotFoundError) as caught:
        download([f"{REFUSED}/set.bin"], target, checksum=CHECKSUM)
    for part in (f"{REFUSED}/set.bin", "refused", f"put it at {target}", CHECKSUM):
        assert part in str(caught.value)


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


def test_a_changed_byte_is_noticed_and_both_checksums_are_named(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    known = "md5:900150983cd24fb0d6963f7d28e17f72"  # RFC 1321
    assert checksum(path, "md5") == known
    verify(path, known)
    path.write_bytes(b"abd")
    with pytest.raises(FileFormatError, match=rf"{path}.*expected {known}, found {checksum(path, 'md5')}"):
        verify(path, known)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = Record({"a.tar": "https://mirror"}, {"a.npy": "sha256:00"})
    record.write("mnist", tmp_path)
    assert Record.read("mnist", tmp_path) == record
    assert Record.read("cifar10", tmp_path) == Record()


@pytest.mark.parametrize("text", ["{", "[1]", '{"urls": {}}'])
def test_a_damaged_record_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / ".records").mkdir()
    (tmp_path / ".records" / "mnist.json").write_text(text)
    with pytest.raises(FileFormatError, match=r"mnist\.json lacks a part of its download record"):
        Record.read("mnist", tmp_path)


def write_bomb(path: Path) -> None:
    """An archive that grows a thousandfold; one without compression says so, at least."""
    zeros = bytes(3 * CHUNK)
    if path.name == "labels.gz":
        path.write_bytes(gzip.compress(zeros))
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("set/a.npy", zeros)
    else:
        tar(path, {"set/a.npy": zeros})
        path.write_bytes(path.read_bytes()[:20_000])


@pytest.mark.parametrize("name", [*PACK, "labels.gz"])
def test_an_archive_that_would_fill_the_disk_is_refused(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shiftmatch.data.download.MIN_LIMIT", 50_000)
    write_bomb(tmp_path / name)
    with pytest.raises(FileFormatError, match=r"more than [\d,]+ bytes, as if made to fill the disk"):
        unpack(tmp_path / name, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_what_is_no_archive_is_told_apart_from_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "labels.gz").write_bytes(b"hello")
    with pytest.raises(FileFormatError, match="cannot be unpacked"):
        unpack(tmp_path / "labels.gz", tmp_path / "out")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    tar(tmp_path / "set.tar", FILES)
    monkeypatch.setattr(tarfile.TarFile, "extractall", full)
    with pytest.raises(OSError, match="No space left") as caught:
        unpack(tmp_path / "set.tar", tmp_path / "out")
    assert not isinstance(caught.value, FileFormatError), "the archive is sound: it need not be fetched again"
    assert list((tmp_path / "out").iterdir()) == []


def test_a_note_that_lacks_how_a_folder_was_made_is_refused(tmp_path: Path) -> None:
    assert read_provenance(tmp_path) is None
    (tmp_path / PROVENANCE).write_text('{"made by": "shiftmatch 0.1", "frost": "made up", "seed": 3}')
    assert read_provenance(tmp_path) == {"made by": "shiftmatch 0.1", "frost": "made up", "seed": 3}
    (tmp_path / PROVENANCE).write_text('{"made by": "shiftmatch 0.1", "frost": "made up"}')
    with pytest.raises(FileFormatError, match=r"lacks a part of how this folder was made \(KeyError\('seed'\)\)"):
        read_provenance(tmp_path)
