import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from made_sets import make_images, make_labels, write_cifar, write_cifar10, write_mnist, write_pictures
from PIL import Image

import shiftmatch
from shiftmatch.corruptions import corrupt, names
from shiftmatch.data.inventory import load, load_corrupted
from shiftmatch.data.writing import GAP, HEADER, LABEL_WIDTH, ArrayFiles, Job, PictureFiles, sheet, write_corrupted
from shiftmatch.errors import DataNotFoundError, InputError

TWO = ("contrast", "gaussian_noise")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_cifar_has_the_published_layout(tmp_path: Path) -> None:
    write_cifar10(tmp_path, 20)
    folder = write_corrupted("cifar10-c", root=tmp_path, corruptions=TWO)
    assert set(contents(folder)) == {"contrast.npy", "gaussian_noise.npy", "labels.npy", "shiftmatch.json"}
    images, labels = np.load(folder / "gaussian_noise.npy"), np.load(folder / "labels.npy")
    assert (images.shape, images.dtype, labels.dtype) == ((100, 32, 32, 3), np.uint8, np.uint8)
    assert labels.tolist() == make_labels(20).tolist() * 5
    clean = load("cifar10", root=tmp_path)
    for severity in range(1, 6):
        expected = corrupt(
            clean.images[torch.arange(20)], "gaussian_noise", severity=severity, suite="cifar10-c", seed=0
        )
        assert np.array_equal(images[20 * (severity - 1) :][:20], expected.permute(0, 2, 3, 1))
    assert len(load_corrupted("cifar10-c", "contrast", 5, root=tmp_path)) == 20


def test_mnist_has_the_published_layout(tmp_path: Path) -> None:
    write_mnist(tmp_path, 30)
    folder = write_corrupted("mnist-c", root=tmp_path, corruptions=["stripe"], limit=10)
    assert folder == tmp_path / "mnist_c"
    assert np.load(folder / "stripe" / "test_images.npy").shape == (10, 28, 28, 1)
    assert np.load(folder / "stripe" / "test_labels.npy").tolist() == make_labels(30)[:10].tolist()


def test_imagenet_has_the_published_layout(tmp_path: Path) -> None:
    write_pictures(tmp_path / "imagenet" / "val", classes=2, each=2)
    folder = write_corrupted("imagenet-c", root=tmp_path, corruptions=["contrast"])
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.JPEG"))
    assert len(files) == 5 * 4
    assert files[0] == "contrast/1/n00000000/val_00.JPEG"
    with Image.open(folder / files[0]) as picture:
        assert picture.size == (224, 224)
    before = contents(folder)
    (folder / files[3]).unlink()
    write_corrupted("imagenet-c", root=tmp_path, corruptions=["contrast"])
    assert contents(folder) == before
    assert (
        load_corrupted("imagenet-c", "contrast", 4, root=tmp_path).labels.tolist()
        == load("imagenet", root=tmp_path).labels.tolist()
    )


def test_other_sets_can_be_corrupted_the_same_way(tmp_path: Path) -> None:
    write_cifar(tmp_path / "cifar-100-binary" / "test.bin", 10, label_bytes=2)
    folder = write_corrupted("cifar10-c", root=tmp_path, data="cifar100", corruptions=["contrast"])
    assert folder == tmp_path / "cifar100-c"


def test_a_folder_never_holds_a_mixture(tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    write_corrupted("cifar10-c", tmp_path / "out", root=tmp_path, corruptions=["contrast"])
    with pytest.raises(InputError, match=r"begun as .*'seed': 0.*'seed': 1"):
        write_corrupted("cifar10-c", tmp_path / "out", root=tmp_path, seed=1)
    (tmp_path / "published").mkdir()
    (tmp_path / "published" / "fog.npy").touch()
    with pytest.raises(InputError, match="did not write"):
        write_corrupted("cifar10-c", tmp_path / "published", root=tmp_path)


def test_mistakes_are_told_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match="shiftmatch data get cifar10"):
        write_corrupted("cifar10-c", tmp_path / "out", root=tmp_path)
    write_cifar10(tmp_path)
    with pytest.raises(InputError, match="no corruption 'fgo'; it has gaussian_noise"):
        write_corrupted("cifar10-c", tmp_path / "out", root=tmp_path, corruptions=["fgo"])
    with pytest.raises(InputError, match="image files, cifar10 does not"):
        write_corrupted("imagenet-c", tmp_path / "out", root=tmp_path, data="cifar10")
    assert not (tmp_path / "out").exists()


SCRIPT = """
import sys
from shiftmatch.data.writing import write_corrupted
root, out, workers = sys.argv[1:]
write_corrupted("cifar10-c", out, root=root, corruptions=("contrast", "gaussian_noise"), workers=int(workers))
"""


def start(root: Path, out: Path, workers: int) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "PYTHONPATH": str(Path(shiftmatch.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(root), str(out), str(workers)], env=environment)


def test_killed_at_any_moment_it_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    write_cifar10(tmp_path, 1200)
    out, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    killed = 0
    for workers, pieces in ((1, 3), (2, 8)):
        with start(tmp_path, out, workers) as process:
            while process.poll() is None and sum(len(files) for *_, files in os.walk(out)) < pieces:
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
        killed += process.returncode == -signal.SIGKILL
    assert killed == 2
    for folder in (out, undisturbed):
        write_corrupted("cifar10-c", folder, root=tmp_path, corruptions=TWO)
    assert contents(out) == contents(undisturbed)


def test_one_or_four_workers_write_the_same_bytes(tmp_path: Path) -> None:
    write_cifar10(tmp_path, 600)
    one, four = (
        write_corrupted("cifar10-c", tmp_path / str(workers), root=tmp_path, corruptions=TWO, workers=workers)
        for workers in (1, 4)
    )
    assert contents(one) == contents(four)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    write_cifar10(tmp_path, 20)
    return Job("cifar10-c", "cifar10", str(tmp_path), seed=1)


@pytest.mark.parametrize("size", [1, 7, 20, 500])
def test_pieces_cover_every_image_at_every_severity_once(job: Job, size: int) -> None:
    pieces = list(job.pieces("contrast", size))
    covered = [(piece.severity, position) for piece in pieces for position in range(piece.start, piece.stop)]
    assert covered == [(severity, position) for severity in range(1, 6) for position in range(20)]


def test_the_images_do_not_depend_on_the_pieces(job: Job) -> None:
    few, all_at_once = (torch.cat([job.images(p) for p in job.pieces("gaussian_noise", size)]) for size in (3, 20))
    assert torch.equal(few, all_at_once)


def test_a_job_sent_to_another_process_carries_no_images(job: Job) -> None:
    assert len(job.clean) == 20
    assert len(pickle.dumps(job)) < 1000


def test_the_provenance_is_free_of_folders(job: Job) -> None:
    assert job.root not in str(job.provenance())


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


@pytest.mark.parametrize(("suite", "cell", "columns"), [("cifar10-c", 128, 6), ("mnist-c", 112, 2)])
def test_there_is_a_cell_for_every_corruption_and_severity(suite: str, cell: int, columns: int) -> None:
    image = Image.fromarray(make_images(1, 70, 90, 3)[0])
    drawn = sheet(image, suite, progress=False)
    step = cell + GAP
    assert drawn.size == (LABEL_WIDTH + columns * step + GAP, HEADER + len(names(suite)) * step)
    pixels = np.asarray(drawn)
    for row in range(len(names(suite))):
        cells = [
            pixels[HEADER + row * step :, LABEL_WIDTH + column * step :][:cell, :cell].copy()
            for column in range(columns)
        ]
        assert not (cells[0] == 255).all()
        assert all((other != cells[0]).any() for other in cells[1:])
