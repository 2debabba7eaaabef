from pathlib import Path

import numpy as np
import pytest
import torch
from made_sets import make_images, make_labels, write_pictures

from shiftmatch.data.corrupted import is_stored, layout_of, load_corrupted
from shiftmatch.errors import FileFormatError, InputError


def test_cifar_files_are_cut_by_severity(tmp_path: Path) -> None:
    folder = tmp_path / "CIFAR-10-C"
    folder.mkdir()
    whole = make_images(20, 32, 32, 3)
    np.save(folder / "contrast.npy", whole)
    np.save(folder / "labels.npy", np.tile(make_labels(4), 5))
    part = load_corrupted("cifar10-c", "contrast", 3, root=tmp_path)
    assert torch.equal(part.images[torch.arange(4)], torch.from_numpy(whole[8:12]).permute(0, 3, 1, 2))
    assert part.labels.tolist() == make_labels(4).tolist()
    assert is_stored("cifar10-c", "contrast", 3, root=tmp_path)
    assert not is_stored("cifar10-c", "brightness", 3, root=tmp_path)


def test_a_file_that_is_not_five_times_the_same_images_is_refused(tmp_path: Path) -> None:
    (tmp_path / "CIFAR-10-C").mkdir()
    np.save(tmp_path / "CIFAR-10-C" / "contrast.npy", make_images(21, 32, 32, 3))
    np.save(tmp_path / "CIFAR-10-C" / "labels.npy", make_labels(21))
    with pytest.raises(FileFormatError, match=r"contrast.*21 images"):
        load_corrupted("cifar10-c", "contrast", 1, root=tmp_path)


def test_mnist_files_have_one_severity(tmp_path: Path) -> None:
    folder = tmp_path / "mnist_c" / "stripe"
    folder.mkdir(parents=True)
    np.save(folder / "test_images.npy", make_images(6, 28, 28, 1))
    np.save(folder / "test_labels.npy", make_labels(6).astype(np.int64))
    assert load_corrupted("mnist-c", "stripe", None, root=tmp_path).images[torch.arange(6)].shape == (6, 1, 28, 28)
    with pytest.raises(InputError, match="no severity 3"):
        load_corrupted("mnist-c", "stripe", 3, root=tmp_path)


def test_imagenet_folders_have_the_severity_in_their_path(tmp_path: Path) -> None:
    write_pictures(tmp_path / "ImageNet-C" / "contrast" / "2", size=(224, 224))
    assert len(load_corrupted("imagenet-c", "contrast", 2, root=tmp_path)) == 12
    assert is_stored("imagenet-c", "contrast", 2, root=tmp_path)
    assert not is_stored("imagenet-c", "contrast", 1, root=tmp_path)


def test_an_unknown_suite_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"'cifar100-c'.*mnist-c, cifar10-c, imagenet-c"):
        layout_of("cifar100-c")
