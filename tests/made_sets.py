"""Small data sets, written by hand in the published file formats."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def make_images(count: int, *shape: int) -> NDArray[np.uint8]:
    return np.random.default_rng(count).integers(0, 256, (count, *shape), np.uint8)


def make_labels(count: int, classes: int = 10) -> NDArray[np.uint8]:
    return (np.arange(count) * 7 % classes).astype(np.uint8)


def write_idx(path: Path, array: NDArray[np.uint8]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes() + array.tobytes())


def write_mnist(root: Path, count: int = 30) -> None:
    write_idx(root / "mnist" / "t10k-images-idx3-ubyte", make_images(count, 28, 28))
    write_idx(root / "mnist" / "t10k-labels-idx1-ubyte", make_labels(count))


def write_cifar(path: Path, count: int = 20, label_bytes: int = 1) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    labels = np.stack([make_labels(count)] * label_bytes, axis=1)
    path.write_bytes(np.concatenate([labels, make_images(count, 3072)], axis=1).tobytes())


def write_cifar10(root: Path, count: int = 20) -> None:
    write_cifar(root / "cifar-10-batches-bin" / "test_batch.bin", count)


def write_pictures(folder: Path, classes: int = 3, each: int = 4, size: tuple[int, int] = (300, 260)) -> None:
    for number in range(classes):
        (folder / f"n{number:08}").mkdir(parents=True)
        for picture in range(each):
            blobs = Image.fromarray(make_images(number * each + picture + 1, 6, 6, 3)[-1])
            blobs.resize(size).save(folder / f"n{number:08}" / f"val_{number}{picture}.JPEG", quality=95)


def write_cifar10_train(root: Path, count: int = 20) -> None:
    """Five files of `count` images each."""
    for number in range(1, 6):
        write_cifar(root / "cifar-10-batches-bin" / f"data_batch_{number}.bin", count)
