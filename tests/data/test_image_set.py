from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from shiftmatch.data.image_set import Problems, open_images
from shiftmatch.errors import DataNotFoundError, FileFormatError, InputError
from shiftmatch.models import Preprocessing

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
    inputs, labels = images.training_data(Problems())
    assert inputs.shape == (6, 3, 8, 8)
    assert labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert_close(inputs[5, :, 0, 0], torch.tensor([100.0, 2.0, 0.0]) / 255)


def test_a_flat_folder_has_no_labels_and_may_be_read_in_grey(tmp_path: Path) -> None:
    write_folder(tmp_path / "all", classes=("cat",))
    images = open_images(tmp_path / "all" / "cat", Preprocessing(grey=True))
    assert images.inputs(torch.tensor([1])).shape == (1, 1, 12, 9)
    with pytest.raises(InputError, match="no labels"):
        images.training_data(Problems())


def test_one_file_is_a_set_of_one(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "a.JPG")
    assert open_images(tmp_path / "a.JPG", PLAIN).names == ["a.JPG"]
    assert open_images(str(tmp_path / "a.JPG"), PLAIN).some().shape == (1, 3, 4, 4)


def test_images_beside_class_folders_leave_all_without_labels(tmp_path: Path) -> None:
    write_folder(tmp_path)
    Image.new("RGB", (9, 12)).save(tmp_path / "other.png")
    images = open_images(tmp_path, PLAIN)
    assert (images.labels, images.classes) == (None, ())


def test_files_that_are_no_images_are_told_of(tmp_path: Path) -> None:
    write_folder(tmp_path)
    for name in ("notes.txt", "more.txt", "clip.mp4", ".hidden.png"):
        (tmp_path / name).touch()
    images = open_images(tmp_path, PLAIN)
    assert len(images) == 6
    assert images.notes == ("files that are no images by their names were left out: 1 .mp4, 2 .txt",)


def test_batches_mix_the_images_and_none_is_small(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((25, 4, 4), dtype=np.uint8))
    batches = open_images(tmp_path / "x.npy", PLAIN).batches(10)
    first, again = ([index for _, index in batches] for _ in range(2))
    assert [len(index) for index in first] == [13, 12]
    assert sorted(torch.cat(first).tolist()) == list(range(25))
    assert torch.cat(first).tolist() != list(range(25))
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


def test_batches_leave_out_what_cannot_be_read_and_say_why(tmp_path: Path) -> None:
    write_folder(tmp_path)
    (tmp_path / "cat" / "1.png").write_bytes(b"")
    clear = Image.new("RGBA", (9, 12), (0, 0, 0, 0))
    clear.save(tmp_path / "dog" / "2.png")
    batches = open_images(tmp_path, PLAIN).batches(6)
    ((inputs, index),) = batches
    assert sorted(index.tolist()) == [0, 2, 3, 4, 5]
    assert len(inputs) == 5
    assert batches.problems.refused == {"cat/1.png": "Is empty (0 bytes). Copy it again, or take it out."}
    assert batches.problems.changed == {"dog/2.png": "transparency was laid over white"}


def test_images_of_nan_are_left_out(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).random((4, 5, 5))
    pixels[2, 0, 0] = np.nan
    np.save(tmp_path / "x.npy", pixels)
    batches = open_images(tmp_path / "x.npy", PLAIN).batches(4)
    assert [sorted(index.tolist()) for _, index in batches] == [[0, 1, 3]]
    assert batches.problems.refused == {"2": "It holds NaN or infinity."}


def test_mistakes_are_explained(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match="no folder or file"):
        open_images(tmp_path / "nowhere", PLAIN)
    with pytest.raises(DataNotFoundError, match=r"no \.jpeg"):
        open_images(tmp_path, PLAIN)
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InputError, match="neither"):
        open_images(tmp_path / "notes.txt", PLAIN)
    write_folder(tmp_path / "some")
    Image.new("RGB", (5, 5)).save(tmp_path / "some" / "cat" / "small.png")
    with pytest.raises(InputError, match="different sizes, such as 3 × 5 × 5 and 3 × 12 × 9"):
        open_images(tmp_path / "some", PLAIN).training_data(Problems())


def test_training_data_leaves_out_what_cannot_be_read(tmp_path: Path) -> None:
    write_folder(tmp_path)
    (tmp_path / "cat" / "1.png").write_text("hello")
    inputs, labels = open_images(tmp_path, PLAIN).training_data(problems := Problems())
    assert (len(inputs), labels.tolist()) == (5, [0, 0, 1, 1, 1])
    assert "not an image" in problems.refused["cat/1.png"]


def test_a_folder_of_which_nothing_can_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").touch()
    images = open_images(tmp_path, PLAIN)
    with pytest.raises(FileFormatError, match=r"None of the 1 images can be read. a\.png: Is empty"):
        images.some()
    with pytest.raises(FileFormatError, match=r"a\.png is empty"):
        images.inputs(torch.arange(1))


def test_training_data_of_which_nothing_can_be_read_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path)
    for file in tmp_path.rglob("*.png"):
        file.write_bytes(b"")
    with pytest.raises(FileFormatError, match="None of the 6 images can be read"):
        open_images(tmp_path, PLAIN).training_data(problems := Problems())
    assert len(problems.refused) == 6


def test_grey_arrays_become_colour_and_it_is_told_while_files_can_be_read_as_either(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 5, 5), dtype=np.uint8)
    np.save(tmp_path / "x.npy", pixels)
    colour = open_images(tmp_path / "x.npy", PLAIN).in_colour()
    expected = torch.from_numpy(pixels)[:, None].expand(-1, 3, -1, -1) / 255
    assert_close(colour.inputs(torch.arange(4)), expected)
    assert colour.notes == ("grey images were given three equal channels",)
    write_folder(tmp_path / "folder")
    files = open_images(tmp_path / "folder", PLAIN)
    assert files.in_colour() is files


def test_the_number_of_batches_is_known_before_they_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((25, 4, 4), dtype=np.uint8))
    images = open_images(tmp_path / "x.npy", PLAIN)
    assert [len(images.batches(size)) for size in (10, 25, 100)] == [2, 1, 1]
    assert len(list(images.batches(10))) == 2
