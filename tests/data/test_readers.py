import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_sets import make_images, make_labels, write_cifar, write_idx, write_mnist
from numpy.typing import NDArray
from scipy.io import loadmat, savemat
from torch.testing import assert_close

from shiftmatch.data.image_set import open_images
from shiftmatch.data.readers import parse_matlab, read_array, read_arrays, read_cifar, read_idx, read_matlab
from shiftmatch.errors import FileFormatError
from shiftmatch.models import Preprocessing


def idx_paths(root: Path) -> list[Path]:
    return [root / "mnist" / "t10k-images-idx3-ubyte", root / "mnist" / "t10k-labels-idx1-ubyte"]


def test_idx(tmp_path: Path) -> None:
    write_mnist(tmp_path, 30)
    images, labels = read_idx(idx_paths(tmp_path))
    assert torch.equal(images[torch.arange(30)], torch.from_numpy(make_images(30, 28, 28))[:, None])
    assert labels.tolist() == make_labels(30).tolist()


def test_idx_files_that_are_cut_or_of_another_kind_are_named(tmp_path: Path) -> None:
    write_mnist(tmp_path, 30)
    images, labels = idx_paths(tmp_path)
    with pytest.raises(FileFormatError, match=rf"{labels}.*expected an idx file of bytes with 3 axes"):
        read_idx([labels, images])
    images.write_bytes(images.read_bytes()[:-1])
    with pytest.raises(FileFormatError, match=rf"{images}.*expected 23,536 bytes.*found 23,535"):
        read_idx([images, labels])
    images.write_bytes(b"\0\0")
    with pytest.raises(FileFormatError, match=str(images)):
        read_idx([images, labels])


def test_reading_never_writes_to_the_file(tmp_path: Path) -> None:
    write_idx(tmp_path / "images", make_images(3, 28, 28))
    write_idx(tmp_path / "labels", make_labels(3))
    before = (tmp_path / "images").read_bytes()
    images, _ = read_idx([tmp_path / "images", tmp_path / "labels"])
    assert isinstance(images, torch.Tensor)
    images.zero_()
    assert (tmp_path / "images").read_bytes() == before


@pytest.mark.parametrize("label_bytes", [1, 2])
def test_cifar_joins_its_files(tmp_path: Path, label_bytes: int) -> None:
    for name, count in (("a.bin", 20), ("b.bin", 10)):
        write_cifar(tmp_path / name, count, label_bytes)
    images, labels = read_cifar([tmp_path / "a.bin", tmp_path / "b.bin"], label_bytes=label_bytes)
    expected = np.concatenate([make_images(20, 3072), make_images(10, 3072)]).reshape(30, 3, 32, 32)
    assert torch.equal(images[torch.arange(30)], torch.from_numpy(expected))
    assert labels.tolist() == [*make_labels(20), *make_labels(10)]


def test_cifar_takes_the_fine_label_which_comes_second(tmp_path: Path) -> None:
    (tmp_path / "train.bin").write_bytes(bytes([3, 77]) + bytes(3072))
    _, labels = read_cifar([tmp_path / "train.bin"], label_bytes=2, classes=100)
    assert labels.tolist() == [77]


def test_cifar_files_that_are_cut_or_misaligned_are_named(tmp_path: Path) -> None:
    path = tmp_path / "test_batch.bin"
    write_cifar(path, 2)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FileFormatError, match=rf"{path}.*whole records of 3073 bytes, found 6,145"):
        read_cifar([path])
    path.write_bytes(bytes([200]) * 3073)
    with pytest.raises(FileFormatError, match="labels below 10, found a label 200"):
        read_cifar([path])


def test_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", make_images(4, 32, 32, 3))
    np.save(tmp_path / "labels.npy", make_labels(4).astype(np.int32))
    images, labels = read_arrays([tmp_path / "images.npy", tmp_path / "labels.npy"])
    assert torch.equal(images[torch.arange(4)], torch.from_numpy(make_images(4, 32, 32, 3)).permute(0, 3, 1, 2))
    assert labels.dtype == torch.int64


def test_arrays_of_another_kind_are_named(tmp_path: Path) -> None:
    images, labels = tmp_path / "images.npy", tmp_path / "labels.npy"
    np.save(labels, make_labels(4))
    np.save(images, make_images(4, 32, 32))
    with pytest.raises(FileFormatError, match=rf"{images}.*N × H × W × C, found uint8 of shape \(4, 32, 32\)"):
        read_arrays([images, labels])
    np.save(images, make_images(4, 32, 32, 3))
    np.save(labels, np.zeros((4, 10)))
    with pytest.raises(FileFormatError, match=rf"{labels}.*found float64 of shape \(4, 10\)"):
        read_arrays([images, labels])
    images.write_bytes(images.read_bytes()[:-1])
    with pytest.raises(FileFormatError, match=str(images)):
        read_arrays([images, labels])


class Bomb:
    def __reduce__(self) -> tuple[object, ...]:
        return pytest.fail, ("unpickled a stranger's file",)


def test_an_array_of_objects_is_refused_and_nothing_runs(tmp_path: Path) -> None:
    np.save(tmp_path / "bomb.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    with pytest.raises(FileFormatError, match=r"bomb\.npy"):
        read_array(tmp_path / "bomb.npy")


def test_matlab(tmp_path: Path) -> None:
    pixels, digits = make_images(5, 3, 32, 32), np.array([10, 1, 2, 9, 10])
    savemat(tmp_path / "test_32x32.mat", {"X": pixels.transpose(2, 3, 1, 0), "y": digits[:, None].astype(np.uint8)})
    images, labels = read_matlab([tmp_path / "test_32x32.mat"])
    assert torch.equal(images[torch.arange(5)], torch.from_numpy(pixels))
    assert labels.tolist() == [0, 1, 2, 9, 0]


@pytest.mark.parametrize("keep", [0, 100, 3000])
def test_a_truncated_matlab_file_is_named(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "test_32x32.mat"
    savemat(path, {"X": make_images(32, 32, 3, 5), "y": np.ones((5, 1), np.uint8)}, do_compression=True)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(FileFormatError, match=str(path)):
        read_matlab([path])


ARRAYS: dict[str, Any] = {
    "X": np.arange(120, dtype=np.uint8).reshape(2, 3, 4, 5),
    "y": np.array([[1], [10]], np.uint8),
    "long_name_of_doubles": np.linspace(0, 1, 7)[None],
    "s": np.array([[3]], np.int16),
    "n": np.array([[-3, 5]], np.int32),
    "f": np.array([[0.5]], np.float32),
}


@pytest.mark.parametrize("compressed", [False, True])
def test_arrays_are_those_that_scipy_reads(compressed: bool, tmp_path: Path) -> None:
    file = tmp_path / "x.mat"
    savemat(str(file), ARRAYS, do_compression=compressed)
    expected, found = loadmat(str(file)), parse_matlab(file.read_bytes())
    assert found.keys() == ARRAYS.keys()
    for name, array in found.items():
        assert np.array_equal(array, expected[name])


@pytest.mark.parametrize("what", [{"words": "abc"}, {"z": np.array([[1j]])}, {"cell": np.array([[1], "a"], object)}])
def test_other_things_than_real_numbers_are_refused(what: dict[str, Any], tmp_path: Path) -> None:
    savemat(str(tmp_path / "x.mat"), what)
    with pytest.raises(ValueError, match="other things than arrays of real numbers"):
        parse_matlab((tmp_path / "x.mat").read_bytes())


def test_what_is_no_matlab_file_is_refused() -> None:
    with pytest.raises(ValueError, match="little-endian MATLAB 5"):
        parse_matlab(bytes(200))


PLAIN = Preprocessing()
COLOUR = Preprocessing(mean=(0.0, 0.0, 0.0))
PIXELS = np.random.default_rng(0).integers(0, 256, (5, 6, 7, 3), dtype=np.uint8)


def opened(path: Path, array: NDArray[np.generic], prepare: Preprocessing = PLAIN) -> tuple[torch.Tensor, str]:
    np.save(path / "x.npy", array)
    images = open_images(path / "x.npy", prepare)
    return images.inputs(torch.arange(len(images))), "; ".join(images.notes)


def test_arrays_are_read_whatever_their_axes_and_types(tmp_path: Path) -> None:
    expected = torch.from_numpy(PIXELS).permute(0, 3, 1, 2) / 255
    same: list[NDArray[np.generic]] = [
        PIXELS,
        PIXELS.transpose(0, 3, 1, 2),
        PIXELS / 255,
        (PIXELS / 255).astype(">f4"),
        PIXELS.astype(np.float32),
        PIXELS.astype(np.int64),
        PIXELS.astype(">u2"),
        np.asfortranarray(PIXELS),
    ]
    for array in same:
        assert_close(opened(tmp_path, array)[0], expected)
    assert opened(tmp_path, PIXELS[..., 0] > 100)[0].unique().tolist() == [0, 1]


def test_whole_numbers_up_to_255_are_bytes_and_it_is_told(tmp_path: Path) -> None:
    assert "read as bytes" in opened(tmp_path, PIXELS.astype(np.float32))[1]
    assert not opened(tmp_path, PIXELS / 255)[1]


@pytest.mark.parametrize(
    "array",
    [
        PIXELS.astype(np.float32) + 0.5,
        PIXELS / 127.5 - 1,
        PIXELS.astype(np.uint16) * 100,
        PIXELS.astype(np.complex64),
        PIXELS[:0],
    ],
)
def test_numbers_without_a_clear_meaning_are_refused(tmp_path: Path, array: NDArray[np.generic]) -> None:
    with pytest.raises(FileFormatError, match=r"expected bytes|no images"):
        opened(tmp_path, array)


def test_one_colour_image_is_not_taken_for_three_grey_ones(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="one colour image, or three grey ones"):
        opened(tmp_path, PIXELS[0].transpose(2, 0, 1))
    assert opened(tmp_path, PIXELS[0])[0].shape == (1, 3, 6, 7)
    assert opened(tmp_path, PIXELS[:3, ..., 0], Preprocessing(grey=True))[0].shape == (3, 1, 6, 7)


def test_grey_and_colour_become_what_the_network_takes_and_it_is_told(tmp_path: Path) -> None:
    grey, note = opened(tmp_path, PIXELS[..., 0], COLOUR)
    assert_close(grey, torch.from_numpy(PIXELS[..., :1]).permute(0, 3, 1, 2).expand(-1, 3, -1, -1) / 255)
    assert "three equal channels" in note
    luma, note = opened(tmp_path, PIXELS, Preprocessing(grey=True))
    assert_close(luma[:, 0], torch.from_numpy((PIXELS @ [0.299, 0.587, 0.114]).round() / 255).float())
    assert "made grey" in note


def test_arrays_of_another_size_are_cut_as_files_are(tmp_path: Path) -> None:
    cut, note = opened(tmp_path, PIXELS, Preprocessing(size=4))
    assert cut.shape == (5, 3, 4, 4)
    assert "scaled and cut" in note


@pytest.mark.parametrize("shape", [(2, 4), (2, 4, 4, 4), (1, 2, 3, 4, 5)])
def test_other_shapes_are_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    with pytest.raises(FileFormatError, match="expected N × H × W"):
        opened(tmp_path, np.zeros(shape, dtype=np.uint8))


def test_labels_may_be_words(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", images=PIXELS, labels=np.array(["dog", "cat", "dog", "eel", "cat"]))
    images = open_images(tmp_path / "x.npz", PLAIN)
    assert images.classes == ("cat", "dog", "eel")
    assert images.labels is not None
    assert images.labels.tolist() == [1, 0, 1, 2, 0]


@pytest.mark.parametrize(
    "labels", [np.arange(5) + 0.5, -np.arange(5), np.arange(4), np.zeros((5, 10)), np.full(5, None)]
)
def test_other_labels_are_refused(tmp_path: Path, labels: NDArray[np.generic]) -> None:
    np.savez(tmp_path / "x.npz", images=PIXELS, labels=labels)
    with pytest.raises(FileFormatError, match=r"labels|x\.npz"):
        open_images(tmp_path / "x.npz", PLAIN)


def test_one_array_without_a_name_is_the_images(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", PIXELS)
    assert len(open_images(tmp_path / "x.npz", PLAIN)) == 5
    np.savez(tmp_path / "x.npz", PIXELS, PIXELS)
    with pytest.raises(FileFormatError, match="it has arr_0, arr_1"):
        open_images(tmp_path / "x.npz", PLAIN)


@pytest.mark.parametrize("keep", [0, 10, 200, 600, -5])
def test_a_truncated_npz_is_named(tmp_path: Path, keep: int) -> None:
    np.savez_compressed(tmp_path / "x.npz", images=PIXELS, labels=np.arange(5))
    (tmp_path / "x.npz").write_bytes((tmp_path / "x.npz").read_bytes()[:keep])
    with pytest.raises(FileFormatError, match=r"x\.npz is not a complete"):
        open_images(tmp_path / "x.npz", PLAIN)


def test_whole_numbers_are_labels_whatever_their_type(tmp_path: Path) -> None:
    for labels in (np.array([2, 0, 1, 2, 1]), np.array([[2.0], [0.0], [1.0], [2.0], [1.0]])):
        np.savez(tmp_path / "x.npz", images=PIXELS, labels=labels)
        found = open_images(tmp_path / "x.npz", PLAIN)
        assert found.labels is not None
        assert (found.labels.tolist(), found.labels.dtype, found.classes) == ([2, 0, 1, 2, 1], torch.int64, ())


def test_an_npz_file_of_other_things_than_arrays_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as file:
        file.writestr("images", b"no array")
    with pytest.raises(FileFormatError, match=r"x\.npz holds files that are no arrays of NumPy"):
        open_images(tmp_path / "x.npz", PLAIN)


def test_idx_lengths_below_zero_are_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path, 2)
    images, labels = idx_paths(tmp_path)
    content = images.read_bytes()
    images.write_bytes(content[:4] + np.array([2, -28, -28], ">i4").tobytes() + content[16:])
    with pytest.raises(FileFormatError, match=r"expected lengths from 0 on in its header, found \(2, -28, -28\)"):
        read_idx([images, labels])


@pytest.mark.parametrize("digits", [np.ones((4, 1)), np.full((5, 1), np.nan)])
def test_matlab_labels_that_do_not_belong_to_the_images_are_refused(tmp_path: Path, digits: NDArray[Any]) -> None:
    savemat(tmp_path / "x.mat", {"X": make_images(32, 32, 3, 5), "y": digits})
    with pytest.raises(FileFormatError, match="expected one label for each image, found 5 images, float64 labels"):
        read_matlab([tmp_path / "x.mat"])


def test_a_matlab_file_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    savemat(tmp_path / "x.mat", {"X": np.zeros((1500, 1000, 3, 1), np.uint8)}, do_compression=True)
    assert (tmp_path / "x.mat").stat().st_size < 10_000
    with pytest.raises(FileFormatError, match="grows as if made to fill the memory"):
        read_matlab([tmp_path / "x.mat"])


def test_a_matlab_array_without_a_possible_shape_is_refused(tmp_path: Path) -> None:
    savemat(tmp_path / "x.mat", {"y": np.ones((7, 11), np.uint8)})
    content = (tmp_path / "x.mat").read_bytes()
    shape = np.array([7, 11], "<i4").tobytes()
    assert content.count(shape) == 1
    with pytest.raises(ValueError, match=r"an array has the shape \[-7, -11\]"):
        parse_matlab(content.replace(shape, np.array([-7, -11], "<i4").tobytes()))
