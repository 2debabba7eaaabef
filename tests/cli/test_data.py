import json
from pathlib import Path

import numpy as np
from made_sets import make_images, write_mnist
from PIL import Image
from shared_data import DATA, needs_data
from typer.testing import CliRunner

from shiftmatch.cli import app
from shiftmatch.data.catalog import CATALOG


def test_the_list_names_every_set_and_says_what_is_damaged(tmp_path: Path) -> None:
    runner = CliRunner(env={"COLUMNS": "200"})
    empty = runner.invoke(app, ["data", "--root", str(tmp_path)])
    assert empty.exit_code == 0
    assert all(name in empty.stdout for name in CATALOG)
    write_mnist(tmp_path)
    assert "incomplete" in runner.invoke(app, ["data", "--root", str(tmp_path)]).stdout
    for part in ("images-idx3", "labels-idx1"):
        (tmp_path / "mnist" / f"train-{part}-ubyte").touch()
    damaged = runner.invoke(app, ["data", "--root", str(tmp_path)])
    assert damaged.exit_code == 1
    assert "damaged" in damaged.stdout


def test_what_cannot_be_fetched_is_told(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["data", "get", "imagenet", "--root", str(tmp_path)])
    assert result.exit_code == 1
    assert "image-net.org" in result.stderr


def test_the_list_is_a_command_of_its_own_also_for_scripts(tmp_path: Path) -> None:
    assert "mnist" in CliRunner().invoke(app, ["data", "list", "--root", str(tmp_path)]).stdout
    result = CliRunner().invoke(app, ["data", "list", "--json", "--root", str(tmp_path)])
    assert {entry["state"] for entry in json.loads(result.stdout)} == {"absent"}


def test_the_data_folder_may_be_named_before_the_command(tmp_path: Path) -> None:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["data", "--root", str(tmp_path), "get", "imagenet"])
    assert str(tmp_path / "imagenet") in result.stderr


@needs_data("mnist")
def test_a_set_that_is_there_is_not_fetched_again() -> None:
    result = CliRunner().invoke(app, ["data", "get", "mnist", "--root", str(DATA)])
    assert result.exit_code == 0
    assert "checksum holds (published)" in result.stdout


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
