from pathlib import Path

import pytest
import torch
from made_sets import make_images, write_pictures
from PIL import Image
from shared_data import SHARED, needs_shared

from shiftmatch.data.images import ImageFolder, ImageSource, Labelled, class_folders
from shiftmatch.errors import DataNotFoundError, FileFormatError, InputError

IMAGES = torch.arange(5, dtype=torch.uint8).reshape(5, 1, 1, 1)


def test_a_tensor_is_a_source_of_images() -> None:
    assert isinstance(IMAGES, ImageSource)


def test_first_keeps_images_and_labels_together() -> None:
    part = Labelled(IMAGES, torch.arange(5), "five", "here").first(2)
    assert part.images[torch.tensor([1])].item() == part.labels[1] == 1
    assert len(part) == 2
    assert part.first(None) is part
    with pytest.raises(InputError, match="not 0"):
        part.first(0)


def test_images_and_labels_must_match() -> None:
    with pytest.raises(FileFormatError, match=r"five.*5 images but 4 labels"):
        Labelled(IMAGES, torch.arange(4), "five", "here")


def test_labels_are_the_ranks_of_the_class_folders(tmp_path: Path) -> None:
    write_pictures(tmp_path, classes=3, each=4)
    images, labels = class_folders(tmp_path)
    assert isinstance(images, ImageSource)
    assert len(images) == 12
    assert [f"n{label:08}" for label in labels] == [path.parent.name for path in images.paths]


def test_the_order_mixes_the_classes_and_is_the_same_in_a_copy_elsewhere(tmp_path: Path) -> None:
    for name in ("val", "copy"):
        write_pictures(tmp_path / name, classes=3, each=8, size=(8, 8))
    (clean, labels), (copy, _) = (class_folders(tmp_path / name) for name in ("val", "copy"))
    assert [path.name for path in clean.paths] == [path.name for path in copy.paths]
    assert set(labels[:8].tolist()) == {0, 1, 2}


def test_files_are_decoded_only_when_their_pixels_are_asked_for(tmp_path: Path) -> None:
    write_pictures(tmp_path)
    images, _ = class_folders(tmp_path)
    images.paths[5].write_bytes(b"not a picture")
    assert images[:5][torch.tensor([4, 0])].shape == (2, 3, 224, 224)
    with pytest.raises(FileFormatError, match=images.paths[5].name):
        images[torch.tensor([5])]


def test_an_image_of_the_final_size_stays_as_it_is(tmp_path: Path) -> None:
    pixels = make_images(1, 224, 224, 3)[0]
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert torch.equal(ImageFolder((tmp_path / "a.png",)).decode(0), torch.from_numpy(pixels).permute(2, 0, 1))


def test_published_images_are_not_turned_as_networks_are_trained_without_it(tmp_path: Path) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    (tmp_path / "class").mkdir()
    Image.new("RGB", (3, 2)).save(tmp_path / "class" / "a.jpg", exif=turned)
    images, _ = class_folders(tmp_path)
    assert ImageFolder(images.paths, size=None, upright=images.upright).decode(0).shape == (3, 2, 3)


@needs_shared
def test_real_photographs_are_read_whole() -> None:
    photographs, labels = class_folders(SHARED)  # the folder of samples counts as one class
    assert len(photographs) == len(labels) == 500
    pixels = photographs[torch.tensor([0, 499])]
    assert pixels.shape == (2, 3, 224, 224)
    assert (pixels.float().std(dim=(1, 2, 3)) > 10).all()


def test_a_folder_without_images_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match=str(tmp_path)):
        class_folders(tmp_path)
