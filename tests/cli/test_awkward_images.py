"""Thirty awkward images are predicted or refused one by one, with a summary; nothing is silent."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from shiftmatch.cli import app

SIDES = (40, 30)
NETWORK = "from torch import nn\ndef net():\n    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 3))\n"
Maker = Callable[[Path], None]


def photo() -> Image.Image:
    blobs = Image.fromarray(np.random.default_rng(0).integers(0, 256, (5, 5, 3), dtype=np.uint8))
    return blobs.resize(SIDES, Image.Resampling.BICUBIC)


def saved(mode: str, **options: Any) -> Maker:
    return lambda path: photo().convert(mode).save(path, **options)


def sixteen_bits(path: Path) -> None:
    Image.fromarray(np.asarray(photo().convert("L")).astype(np.uint16) * 257).save(path)


def turned(orientation: int) -> Maker:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return saved("RGB", exif=exif)


def clear(mode: str) -> Maker:
    def make(path: Path) -> None:
        image = photo().convert("RGBA")
        image.putalpha(Image.linear_gradient("L").resize(SIDES))
        image.convert(mode).save(path)

    return make


def animated(path: Path) -> None:
    photo().save(path, save_all=True, append_images=[photo().rotate(180)])


def palette_with_a_clear_colour(path: Path) -> None:
    photo().convert("P").save(path, transparency=0)


def cut(path: Path) -> None:
    photo().resize((400, 300)).save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def numbers(scale: float, kind: str) -> Maker:
    return lambda path: Image.fromarray((np.asarray(photo().convert("L")) * scale).astype(kind)).save(path)


def holding(content: bytes) -> Maker:
    return lambda path: (path.write_bytes(content), None)[1]


READ: dict[str, Maker] = {
    "16bit.png": sixteen_bits,
    "16bit.tif": sixteen_bits,
    "turned3.jpg": turned(3),
    "turned6.jpg": turned(6),
    "turned8.png": turned(8),
    "palette.png": saved("P"),
    "palette.gif": saved("P"),
    "palette_clear.png": palette_with_a_clear_colour,
    "cmyk.jpg": saved("CMYK"),
    "cmyk.tif": saved("CMYK"),
    "rgba.png": clear("RGBA"),
    "rgba.webp": clear("RGBA"),
    "la.png": clear("LA"),
    "1bit.png": saved("1"),
    "1bit.bmp": saved("1"),
    "grey.jpg": saved("L"),
    "lossless.webp": saved("RGB", lossless=True),
    "plain.tiff": saved("RGB"),
    "PLAIN.BMP": saved("RGB"),
    "progressive.JPEG": saved("RGB", progressive=True),
    "animated.gif": animated,
    "pages.tif": animated,
    "float01.tif": numbers(1 / 255, "float32"),
}
REFUSED: dict[str, Maker] = {
    "truncated.jpg": cut,
    "truncated.png": cut,
    "zero.jpg": holding(b""),
    "text.png": holding(b"<html>404 not found</html>"),
    "bomb.png": lambda path: Image.new("1", (40_000, 40_000)).save(path),
    "float255.tif": numbers(1.0, "float32"),
    "32bit.tif": numbers(1e6, "int32"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net_for_awkward_images.py").write_text(NETWORK)
    (tmp_path / "photos").mkdir()
    for name, make in (READ | REFUSED).items():
        make(tmp_path / "photos" / name)
    (tmp_path / "photos" / "notes.txt").write_text("hello")
    return tmp_path


def test_thirty_awkward_images_are_predicted_or_refused_one_by_one(folder: Path) -> None:
    assert len(READ | REFUSED) == 30
    words = ["predict", "net_for_awkward_images.py:net", "photos", "--size", "8", "--out", "labels.csv"]
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, words)
    assert result.exit_code == 3, (result.output, result.exception)
    with (folder / "labels.csv").open(newline="") as file:
        rows = {row["image"]: row for row in csv.DictReader(file)}
    assert rows.keys() == (READ | REFUSED).keys()
    assert {name for name, row in rows.items() if row["label"]} == READ.keys()
    assert {name for name, row in rows.items() if row["problem"]} == REFUSED.keys()
    assert "7 of 30 images were refused" in result.stderr
    assert all(name in result.stderr for name in REFUSED)
    assert "transparency was laid over white in " in result.stderr
    assert "first of several frames or pages was taken in 2 of 30" in result.stderr
    assert "left out: 1 .txt" in result.stderr
    assert "The predictions for 23 images are in labels.csv" in result.stdout

    # those that show the same photograph are predicted alike
    for alike in (
        ("lossless.webp", "plain.tiff", "PLAIN.BMP", "pages.tif", "progressive.JPEG"),
        ("16bit.png", "16bit.tif", "grey.jpg", "float01.tif"),
    ):
        found = [float(rows[name]["probability"]) for name in alike]
        assert max(found) - min(found) < 0.02
