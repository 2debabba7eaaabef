from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.testing import assert_close

from shiftmatch.data.image_set import open_images
from shiftmatch.errors import FileFormatError
from shiftmatch.models import Preprocessing

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
