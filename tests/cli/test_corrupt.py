from pathlib import Path

import numpy as np
from made_sets import make_images, write_mnist
from PIL import Image
from typer.testing import CliRunner

from shiftmatch.cli import app


def test_a_set_is_written(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    out = tmp_path / "out"
    options = ["--root", str(tmp_path), "--out", str(out), "--only", "stripe", "--limit", "5"]
    result = CliRunner().invoke(app, ["corrupt", "mnist-c", *options])
    assert result.exit_code == 0, result.output
    assert str(out) in result.stdout.replace("\n", "")
    assert np.load(out / "stripe" / "test_images.npy").shape == (5, 28, 28, 1)


def test_a_sheet_is_drawn(tmp_path: Path) -> None:
    Image.fromarray(make_images(1, 50, 60, 3)[0]).save(tmp_path / "cat.png")
    out = tmp_path / "sheet.png"
    result = CliRunner().invoke(app, ["corrupt", "cifar10-c", "--show", str(tmp_path / "cat.png"), "--out", str(out)])
    assert result.exit_code == 0, result.output
    with Image.open(out) as sheet:
        assert sheet.width > 6 * 128
