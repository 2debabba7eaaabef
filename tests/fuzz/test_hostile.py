"""Files made to do harm: they are refused before anything is written outside, run, or blown up."""

import gzip
import io
import pickle
import stat
import tarfile
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

from shiftmatch.data import download
from shiftmatch.data.download import unpack
from shiftmatch.data.readers import parse_matlab
from shiftmatch.errors import FileFormatError
from shiftmatch.models import Architecture, load_weights
from shiftmatch.samplers.interop import read_checkpoint

NETWORK = Architecture("mlp", {"inputs": 4, "hidden": [3], "classes": 2})


def _tar(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(bytes(member.size)))
    return path


def _member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", size: int = 0) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size = kind, target, size
    return member


@pytest.mark.parametrize(
    "members",
    [
        [_member("../outside", size=3)],
        [_member("a/../../outside", size=3)],
        [_member("link", tarfile.SYMTYPE, "/etc/passwd")],
        [_member("link", tarfile.SYMTYPE, ".."), _member("link/outside", size=3)],
        [_member("link", tarfile.LNKTYPE, "../secret")],
        [_member("device", tarfile.CHRTYPE)],
        [_member("pipe", tarfile.FIFOTYPE)],
    ],
    ids=lambda members: members[-1].name,
)
def test_a_tar_that_reaches_outside_is_refused(tmp_path: Path, members: list[tarfile.TarInfo]) -> None:
    (tmp_path / "secret").write_text("secret")
    archive = _tar(tmp_path / "x.tar", *members)
    with pytest.raises(FileFormatError, match=r"x.tar cannot be unpacked"):
        unpack(archive, tmp_path / "inside")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["inside", "secret", "x.tar"]


def test_an_absolute_name_in_a_tar_stays_inside(tmp_path: Path) -> None:
    unpack(_tar(tmp_path / "x.tar", _member("/absolute", size=3)), tmp_path / "inside")
    assert (tmp_path / "inside" / "absolute").read_bytes() == bytes(3)


def test_a_link_in_a_zip_is_unpacked_as_a_plain_file(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as packed:
        packed.writestr(link, "/etc/passwd")
    unpack(tmp_path / "x.zip", tmp_path / "inside")
    assert not (tmp_path / "inside" / "link").is_symlink()


@pytest.mark.parametrize("name", ["x.zip", "x.gz", "x.tar.gz"])
def test_a_bomb_is_refused_before_it_fills_the_disk(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "MIN_LIMIT", 1 << 20)
    zeros, path = bytes(40 << 20), tmp_path / name
    if name.endswith("zip"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("zeros", zeros)
    elif name == "x.gz":
        path.write_bytes(gzip.compress(zeros))
    else:
        with tarfile.open(path, "w:gz") as tar:
            tar.addfile(_member("zeros", size=len(zeros)), io.BytesIO(zeros))
    with pytest.raises(FileFormatError, match="as if made to fill the disk"):
        unpack(path, tmp_path / "inside")
    assert list((tmp_path / "inside").iterdir()) == []


def test_a_compressed_array_that_grows_without_end_is_refused() -> None:
    packed = zlib.compress(bytes(40 << 20))
    content = bytes(126) + b"IM" + (15).to_bytes(4, "little") + len(packed).to_bytes(4, "little") + packed
    with pytest.raises(ValueError, match="fill the memory"):
        parse_matlab(content)


BOMBS = {
    "a table of objects with room for four billion": b"\x80\x02N" + b"r\xff\xff\xff\xff" + b".",
    "a string that is not there": b"\x80\x04\x8d" + (1 << 60).to_bytes(8, "little") + b"x.",
    "a frame that is not there": b"\x80\x04\x95" + (1 << 62).to_bytes(8, "little") + b"N.",
    "very deep nesting": b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b".",
    "an array of a trillion numbers": pickle.dumps({"params": {"linear": {"w": np.zeros(2, np.float32)}}}).replace(
        b"K\x02\x85", b"\x8a\x05\x00\x00\x00\x00\x01\x85"
    ),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_pickle_made_to_fill_the_memory_is_refused(bomb: str, tmp_path: Path) -> None:
    (tmp_path / "model_step_1.pt").write_bytes(BOMBS[bomb])
    with pytest.raises(FileFormatError, match=r"model_step_1.pt"):
        read_checkpoint(tmp_path / "model_step_1.pt")


class Runs:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def test_weights_that_would_run_code_are_refused_and_run_nothing(tmp_path: Path) -> None:
    torch.save({"w": Runs(tmp_path / "ran")}, tmp_path / "net.pt")
    with pytest.raises(FileFormatError, match="could run code"):
        load_weights(NETWORK.build(), tmp_path / "net.pt")
    assert not (tmp_path / "ran").exists()
