from pathlib import Path

import numpy as np
import torch
from made_sets import make_images, write_cifar, write_pictures

from shiftmatch.data import load
from shiftmatch.evaluation.suites import cifar10_c
from shiftmatch.evaluation.training import BATCH, training_batches
from shiftmatch.models.preprocessing import Preprocessing

HALVED = Preprocessing(std=(0.5,))


def write_cifar10(root: Path, each: int) -> None:
    for name in ("test_batch", *(f"data_batch_{number}" for number in range(1, 6))):
        write_cifar(root / "cifar-10-batches-bin" / f"{name}.bin", each)


def test_the_first_images_of_the_training_set_come_in_equal_batches(tmp_path: Path) -> None:
    write_cifar10(tmp_path, 60)
    suite = cifar10_c(tmp_path)
    batches = training_batches(suite, HALVED, BATCH + 10)
    assert [len(batch) for batch in batches] == [105, 105]
    expected = load("cifar10", "train", root=tmp_path).images[torch.arange(BATCH + 10)]
    assert torch.equal(torch.cat(list(batches)), HALVED(expected))
    assert torch.equal(torch.cat(list(batches[1:])), batches[1])


def test_images_of_ones_own_are_mixed(tmp_path: Path) -> None:
    write_cifar10(tmp_path, 10)
    pixels = make_images(50, 3, 32, 32)
    np.save(tmp_path / "own.npy", pixels)
    (batch,) = training_batches(cifar10_c(tmp_path), HALVED, 40, path=tmp_path / "own.npy")
    places = [int((HALVED(torch.from_numpy(pixels)) == image).flatten(1).all(1).nonzero()) for image in batch]
    assert len(set(places)) == 40
    assert places != sorted(places)


def test_pictures_are_cut_to_the_size_of_the_suite(tmp_path: Path) -> None:
    write_cifar10(tmp_path, 10)
    write_pictures(tmp_path / "own", size=(50, 40))
    batches = training_batches(cifar10_c(tmp_path), HALVED, 4000, path=tmp_path / "own")
    assert [batch.shape for batch in batches] == [(12, 3, 32, 32)]
