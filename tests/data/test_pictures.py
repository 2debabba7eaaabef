from pathlib import Path

import pytest
import torch
from made_sets import make_images, write_pictures
from PIL import Image
from shared_data import SHARED, needs_shared

from shiftmatch.data.labelled import Gallery
from shiftmatch.data.pictures import Pictures, centre, open_picture
from shiftmatch.errors import DataNotFoundError, FileFormatError


def test_labels_are_the_ranks_of_the_class_folders(tmp_path: Path) -> None:
    write_pictures(tmp_path, classes=3, each=4)
    pictures = Pictures.below(tmp_path)
    assert isinstance(pictures, Gallery)
    assert len(pictures) == 12
    assert [f"n{label:08}" for label in pictures.labels] == [path.parent.name for path in pictures.paths]


def test_the_order_mixes_the_classes_and_is_the_same_in_a_copy_elsewhere(tmp_path: Path) -> None:
    for name in ("val", "copy"):
        write_pictures(tmp_path / name, classes=3, each=8, size=(8, 8))
    clean, copy = Pictures.below(tmp_path / "val"), Pictures.below(tmp_path / "copy")
    assert [path.name for path in clean.paths] == [path.name for path in copy.paths]
    assert set(clean.labels[:8].tolist()) == {0, 1, 2}


def test_pictures_are_decoded_only_when_their_pixels_are_asked_for(tmp_path: Path) -> None:
    write_pictures(tmp_path)
    pictures = Pictures.below(tmp_path)
    pictures.paths[5].write_bytes(b"not a picture")
    assert pictures[:5][torch.tensor([4, 0])].shape == (2, 3, 224, 224)
    with pytest.raises(FileFormatError, match=pictures.paths[5].name):
        pictures[torch.tensor([5])]


def test_a_picture_of_the_final_size_stays_as_it_is(tmp_path: Path) -> None:
    pixels = make_images(1, 224, 224, 3)[0]
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert torch.equal(open_picture(tmp_path / "a.png"), torch.from_numpy(pixels).permute(2, 0, 1))


def test_the_centre_is_kept() -> None:
    wide = Image.new("RGB", (512, 256), "white")
    wide.paste("red", (144, 0, 368, 256))  # 224 columns around the middle
    assert centre(wide).getcolors() == [(224 * 224, (255, 0, 0))]


@pytest.mark.parametrize("size", [(256, 256), (100, 900), (900, 100), (1, 1), (224, 225)])
def test_any_size_becomes_the_final_size(size: tuple[int, int]) -> None:
    assert centre(Image.new("RGB", size)).size == (224, 224)


@needs_shared
def test_real_photographs_are_read_whole() -> None:
    photographs = Pictures.below(SHARED)  # the folder of samples counts as one class
    assert len(photographs) == 500
    pixels = photographs[torch.tensor([0, 499])]
    assert pixels.shape == (2, 3, 224, 224)
    assert (pixels.float().std(dim=(1, 2, 3)) > 10).all()


def test_a_folder_without_pictures_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match=str(tmp_path)):
        Pictures.below(tmp_path)
