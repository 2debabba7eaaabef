import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_sets import make_images, write_cifar, write_cifar10, write_mnist, write_pictures

from shiftmatch.corruptions import corrupt, names
from shiftmatch.data import load
from shiftmatch.data.writing import write_corrupted
from shiftmatch.errors import DataNotFoundError, FileFormatError, InputError
from shiftmatch.evaluation.suites import cifar10_c, imagenet_c, mnist_c, training_batches
from shiftmatch.models.preprocessing import Preprocessing

TWO = ("contrast", "gaussian_noise")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clean")
    write_cifar10(folder, 20)
    write_mnist(folder, 30)
    write_pictures(folder / "imagenet" / "val")
    return folder


def test_without_files_images_are_made_from_the_clean_set(root: Path) -> None:
    suite = cifar10_c(root, corruptions=TWO, severities=(1, 5), seed=3)
    clean = suite.clean.images[torch.arange(20)]
    for name, severity in suite.cells():
        assert torch.equal(suite.images(name, severity), corrupt(clean, name, severity=severity, seed=3))
    assert list(suite.cells()) == [(name, severity) for name in TWO for severity in (1, 5)]
    assert suite.source == "all corruptions: made from cifar10 test with seed 3"


def test_files_are_read_where_they_are_and_the_rest_is_made(tmp_path: Path) -> None:
    write_cifar10(tmp_path, 20)
    made = cifar10_c(tmp_path, corruptions=TWO)
    folder = write_corrupted("cifar10-c", root=tmp_path, corruptions=["contrast"])
    mixed = cifar10_c(tmp_path, corruptions=TWO)
    assert mixed.stored == ("contrast",)
    assert re.fullmatch(
        rf"contrast: files made by shiftmatch \S+ with seed 0 and frost synthetic in {folder}; "
        r"gaussian_noise: made from cifar10 test with seed 0",
        mixed.source,
    )
    for name, severity in made.cells():
        assert torch.equal(made.images(name, severity), mixed.images(name, severity))
    (folder / "shiftmatch.json").unlink()
    assert "contrast: published files in" in mixed.source


def test_origins_name_no_folder(tmp_path: Path) -> None:
    write_cifar10(tmp_path, 20)
    write_corrupted("cifar10-c", root=tmp_path, corruptions=["contrast"])
    suite = cifar10_c(tmp_path, corruptions=("contrast", "frost", "fog"), seed=3)
    assert re.fullmatch(r"files made by shiftmatch \S+ with seed 0 and frost synthetic", suite.origin("contrast"))
    assert suite.origin("frost") == "made from cifar10 test with seed 3 and frost synthetic"
    assert suite.origin("fog") == "made from cifar10 test with seed 3"


def test_the_source_of_frost_is_told(root: Path) -> None:
    assert cifar10_c(root).source.endswith("with seed 0 and frost synthetic")


@given(st.lists(st.integers(0, 19), max_size=8))
def test_some_images_are_the_same_as_among_all(root: Path, index: list[int]) -> None:
    suite, at = cifar10_c(root, corruptions=TWO), torch.tensor(index, dtype=torch.int64)
    assert torch.equal(suite.images("gaussian_noise", 2, at), suite.images("gaussian_noise", 2)[at])


def test_the_limit_takes_the_first_images(root: Path) -> None:
    few, all_of_them = mnist_c(root, limit=7), mnist_c(root)
    assert len(few) == len(few.labels) == 7
    assert torch.equal(few.images("stripe", None), all_of_them.images("stripe", None)[:7])


def test_imagenet_pictures_are_made_and_read_back_within_jpeg(tmp_path: Path) -> None:
    write_pictures(tmp_path / "imagenet" / "val", size=(224, 224))
    made = imagenet_c(tmp_path, corruptions=["contrast"], limit=4)
    write_corrupted("imagenet-c", root=tmp_path, corruptions=["contrast"])
    read = imagenet_c(tmp_path, corruptions=["contrast"], limit=4)
    assert read.stored == ("contrast",)
    difference = (made.images("contrast", 5).float() - read.images("contrast", 5).float()).abs().mean()
    assert difference < 2  # grey levels: what JPEG of quality 85 loses


def test_files_of_other_images_are_refused(tmp_path: Path) -> None:
    write_cifar10(tmp_path, 20)
    write_corrupted("cifar10-c", root=tmp_path, corruptions=["contrast"])
    path = tmp_path / "cifar-10-batches-bin" / "test_batch.bin"
    records = path.read_bytes()
    path.write_bytes(records[3073:] + records[:3073])
    with pytest.raises(FileFormatError, match=r"labels of contrast.*same\s+images in the same order"):
        cifar10_c(tmp_path).images("contrast", 1)
    write_cifar(path, 30)
    with pytest.raises(FileFormatError):
        cifar10_c(tmp_path).images("contrast", 1)


def test_mistakes_are_answered_with_what_there_is(root: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'fgo'; it has gaussian_noise"):
        cifar10_c(root, corruptions=["fgo"])
    with pytest.raises(InputError, match=r"severities \(1, 2, 3, 4, 5\), not \(6,\)"):
        cifar10_c(root, severities=[6])
    with pytest.raises(InputError, match="no 'contrast' at severity 2"):
        cifar10_c(root, severities=[1]).images("contrast", 2)
    with pytest.raises(DataNotFoundError, match="shiftmatch data get mnist"):
        mnist_c(tmp_path)


def test_all_corruptions_of_the_suite_are_there(root: Path) -> None:
    assert mnist_c(root).corruptions == names("mnist-c")
    assert imagenet_c(root).corruptions == names("imagenet-c")


HALVED = Preprocessing(std=(0.5,))


def write_whole_cifar10(root: Path, each: int) -> None:
    for name in ("test_batch", *(f"data_batch_{number}" for number in range(1, 6))):
        write_cifar(root / "cifar-10-batches-bin" / f"{name}.bin", each)


def test_the_first_images_of_the_training_set_come_in_equal_batches(tmp_path: Path) -> None:
    write_whole_cifar10(tmp_path, 60)
    suite = cifar10_c(tmp_path)
    batches = training_batches(suite, HALVED, 210)
    assert [len(batch) for batch in batches] == [105, 105]
    expected = load("cifar10", "train", root=tmp_path).images[torch.arange(210)]
    assert torch.equal(torch.cat(list(batches)), HALVED(expected))
    assert torch.equal(torch.cat(list(batches[1:])), batches[1])


def test_images_of_ones_own_are_mixed(tmp_path: Path) -> None:
    write_whole_cifar10(tmp_path, 10)
    pixels = make_images(50, 3, 32, 32)
    np.save(tmp_path / "own.npy", pixels)
    (batch,) = training_batches(cifar10_c(tmp_path), HALVED, 40, path=tmp_path / "own.npy")
    places = [int((HALVED(torch.from_numpy(pixels)) == image).flatten(1).all(1).nonzero()) for image in batch]
    assert len(set(places)) == 40
    assert places != sorted(places)


def test_pictures_are_cut_to_the_size_of_the_suite(tmp_path: Path) -> None:
    write_whole_cifar10(tmp_path, 10)
    write_pictures(tmp_path / "own", size=(50, 40))
    batches = training_batches(cifar10_c(tmp_path), HALVED, 4000, path=tmp_path / "own")
    assert [batch.shape for batch in batches] == [(12, 3, 32, 32)]
