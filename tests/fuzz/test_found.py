"""What the fuzzer has found, one file each: a crash, a hang, or memory for numbers that a file only claims to have."""

import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fuzz.campaign import prepare
from fuzz.targets import PREPROCESSING, TARGETS
from PIL import Image

from shiftmatch.data.download import unpack
from shiftmatch.data.image_set import open_images
from shiftmatch.errors import FileFormatError, ShiftMatchError

Edit = Callable[[dict[str, Any]], object]


def _edit_header(content: bytes, edit: Edit) -> bytes:
    length = int.from_bytes(content[:8], "little")
    head = json.loads(content[8 : 8 + length])
    ours = json.loads(head["__metadata__"]["shiftmatch"])
    edit(ours)
    head["__metadata__"]["shiftmatch"] = json.dumps(ours)
    text = json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


HEADERS: dict[str, tuple[str, Edit]] = {
    "a file of members without their number": ("members", lambda header: header.pop("count")),
    "more members than there are": ("members", lambda header: header.update(count=2000)),
    "a number of members that is none": ("members", lambda header: header.update(count="x")),
    "members without sites": ("members", lambda header: header.pop("sites")),
    "a prior of one number": ("matched network", lambda header: header.update(prior=[1])),
    "a matched network without statistics": ("matched network", lambda header: header.pop("sites")),
    "weights that are no names": ("matched network", lambda header: header.update(weights=1.5)),
    "a memory of nothing": ("stream memory", lambda header: header.pop("counts")),
    "a memory without its statistics": ("stream memory", lambda header: header.pop("of")),
    "a memory of words": (
        "stream memory",
        lambda header: header.update(counts={name: {} for name in header["counts"]}),
    ),
    "a memory of NaN images": ("stream memory", lambda header: header.update(images=float("nan"))),
    "a run of a trillion draws": ("run state", lambda header: header.update(draws=1 << 40)),
    "a run of half a draw": ("run state", lambda header: header.update(draws=1.5)),
    "a run without a trace": ("run state", lambda header: header.pop("trace")),
    "a run with a word for a trace": ("run state", lambda header: header.update(trace="x")),
    "a run with a word for its settings": ("run state", lambda header: header.update(settings="x")),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_is_not_as_it_should_be_is_refused(name: str, tmp_path: Path) -> None:
    kind, edit = HEADERS[name]
    target, path = TARGETS[kind], prepare(kind, tmp_path)
    path.write_bytes(_edit_header(target.seeds(tmp_path / "seeds")[0], edit))
    with pytest.raises(ShiftMatchError, match=r"\.safetensors"):  # the file is named
        target.read(path)


def test_a_memory_that_is_refused_leaves_the_stream_as_it_was(tmp_path: Path) -> None:
    target, path = TARGETS["stream memory"], prepare("stream memory", tmp_path)
    before = target.read(path)
    path.write_bytes(_edit_header(path.read_bytes(), lambda header: header.pop("counts")))
    with pytest.raises(FileFormatError):
        target.read(path)
    path.write_bytes(target.seeds(tmp_path / "seeds")[0])
    assert str(target.read(path)) == str(before)


def test_a_cell_that_claims_a_trillion_images_takes_no_memory(tmp_path: Path) -> None:
    target, path = TARGETS["evaluated cell"], prepare("evaluated cell", tmp_path)
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"images": 1 << 40}))
    with pytest.raises(FileFormatError, match=r"1099511627776 images in 1 bytes"):
        target.read(path)


@pytest.mark.parametrize("content", [b"{}", b"[]", b'"', b"{" * 100_000])
def test_a_folder_that_does_not_say_how_it_was_made_is_refused(content: bytes, tmp_path: Path) -> None:
    target, path = TARGETS["set provenance"], prepare("set provenance", tmp_path)
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="lacks a part of how this folder was made"):
        target.read(path)


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"{}"])
@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
def test_an_exported_network_that_is_none_is_refused(suffix: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"net{suffix}"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="net"):
        TARGETS[f"exported {suffix}"].read(path)


def test_metadata_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("net/extra/shiftmatch", bytes(40 << 20))
    with pytest.raises(FileFormatError, match="bytes of metadata"):
        TARGETS["exported .pt2"].read(path)


def test_lengths_below_zero_whose_product_is_right_are_refused(tmp_path: Path) -> None:
    path = prepare("idx images", tmp_path)
    path.write_bytes(bytes([0, 0, 8, 3]) + np.array([3, -4, -5], ">i4").tobytes() + bytes(60))
    with pytest.raises(FileFormatError, match="lengths from 0 on"):
        TARGETS["idx images"].read(path)


@pytest.mark.parametrize("name", [".", "./.", ""])
def test_an_entry_of_an_archive_that_is_the_folder_itself_is_refused(name: str, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"abc"))
    with pytest.raises(FileFormatError, match="cannot be unpacked"):
        unpack(tmp_path / "x.tar", tmp_path / "inside")


@pytest.mark.parametrize("suffix", [".png", ".npy"])
def test_an_image_that_grows_when_its_shorter_side_is_scaled_is_refused(suffix: str, tmp_path: Path) -> None:
    """One row of 100,000 pixels is a few bytes in a file, and 15 GB when it is made 224 rows high."""
    path, pixels = tmp_path / f"long{suffix}", np.zeros((1, 100_000, 3), np.uint8)
    np.save(path, pixels[None]) if suffix == ".npy" else Image.fromarray(pixels).save(path)
    wanted = replace(PREPROCESSING, size=224)
    with pytest.raises(FileFormatError, match=r"when its shorter side is scaled to 224"):
        open_images(path, wanted).inputs(torch.arange(1))
