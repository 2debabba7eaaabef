from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from shiftmatch.data.own import Preprocessing, open_images
from shiftmatch.errors import DataNotFoundError, FileFormatError, InputError

PLAIN = Preprocessing()


def write_folder(folder: Path, *, classes: tuple[str, ...] = ("cat", "dog"), sides: tuple[int, int] = (9, 12)) -> None:
    for level, kind in enumerate(classes):
        (folder / kind).mkdir(parents=True)
        for number in range(3):
            Image.new("RGB", sides, (100 * level, number, 0)).save(folder / kind / f"{number}.png")


def test_class_folders_give_names_labels_and_pixels(tmp_path: Path) -> None:
    write_folder(tmp_path)
    images = open_images(tmp_path, Preprocessing(size=8))
    assert images.names[:2] == ["cat/0.png", "cat/1.png"]
    assert images.classes == ("cat", "dog")
    inputs, labels = images.training_data()
    assert inputs.shape == (6, 3, 8, 8)
    assert labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert_close(inputs[5, :, 0, 0], torch.tensor([100.0, 2.0, 0.0]) / 255)


def test_a_flat_folder_has_no_labels_and_may_be_read_in_grey(tmp_path: Path) -> None:
    write_folder(tmp_path / "all", classes=("cat",))
    images = open_images(tmp_path / "all" / "cat", Preprocessing(grey=True))
    assert images.inputs(torch.tensor([1])).shape == (1, 1, 12, 9)
    with pytest.raises(InputError, match="no labels"):
        images.training_data()


def test_arrays_are_read_whatever_their_axes(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 6, 7, 3), dtype=np.uint8)
    expected = torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255
    arrays: dict[str, np.ndarray] = {"last": pixels, "first": pixels.transpose(0, 3, 1, 2), "numbers": pixels / 255}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
        assert_close(open_images(tmp_path / f"{name}.npy", PLAIN).inputs(torch.arange(5)), expected)
    np.savez(tmp_path / "both.npz", images=pixels[..., 0], labels=np.arange(5))
    inputs, labels = open_images(tmp_path / "both.npz", PLAIN).training_data()
    assert_close(inputs, expected[:, :1])
    assert labels.tolist() == [0, 1, 2, 3, 4]


def test_batches_mix_the_images_and_none_is_small(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((25, 4, 4), dtype=np.uint8))
    batches = open_images(tmp_path / "x.npy", PLAIN).batches(10)
    first, again = ([index for _, index in batches] for _ in range(2))
    assert [len(index) for index in first] == [13, 12]
    assert sorted(torch.cat(first).tolist()) == list(range(25))
    assert torch.cat(first).tolist() != list(range(25))
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


def test_preprocessing_is_remembered() -> None:
    prepare = Preprocessing.of("0.5,0.4,0.3", "0.2", size=32)
    assert Preprocessing.from_note(prepare.note()) == prepare
    assert Preprocessing.from_note("pixels / 255") is None
    x = torch.full((1, 3, 1, 1), 255, dtype=torch.uint8)
    assert_close(prepare(x).flatten(), torch.tensor([2.5, 3.0, 3.5]))


def test_mistakes_are_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one number"):
        Preprocessing.of("half", None)
    with pytest.raises(DataNotFoundError, match="no folder or file"):
        open_images(tmp_path / "nowhere", PLAIN)
    with pytest.raises(DataNotFoundError, match=r"no \.jpeg"):
        open_images(tmp_path, PLAIN)
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InputError, match="neither"):
        open_images(tmp_path / "notes.txt", PLAIN)
    (tmp_path / "bad.npz").write_text("hello")
    with pytest.raises(FileFormatError, match="not a complete"):
        open_images(tmp_path / "bad.npz", PLAIN)
    for name, array, message in (
        ("ints", np.zeros((2, 4, 4), dtype=np.int64), "expected bytes"),
        ("flat", np.zeros((2, 4), dtype=np.uint8), "expected N × H × W"),
    ):
        np.save(tmp_path / f"{name}.npy", array)
        with pytest.raises(FileFormatError, match=message):
            open_images(tmp_path / f"{name}.npy", PLAIN)
    np.savez(tmp_path / "short.npz", x=np.zeros((2, 4, 4), dtype=np.uint8), y=np.zeros(3))
    with pytest.raises(FileFormatError, match="2 images, but labels"):
        open_images(tmp_path / "short.npz", PLAIN)
    write_folder(tmp_path / "some")
    Image.new("RGB", (5, 5)).save(tmp_path / "some" / "cat" / "small.png")
    with pytest.raises(InputError, match="different sizes"):
        open_images(tmp_path / "some", PLAIN).training_data()
    (tmp_path / "some" / "cat" / "small.png").write_text("hello")
    with pytest.raises(FileFormatError, match="not a readable image"):
        open_images(tmp_path / "some", Preprocessing(size=4)).training_data()
