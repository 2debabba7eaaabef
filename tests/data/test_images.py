from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_sets import make_images, write_pictures
from numpy.typing import NDArray
from PIL import Image
from shared_data import SHARED, needs_shared

from shiftmatch.data.images import ImageFolder, ImageSource, Labelled, centre, class_folders, open_image, to_pixels
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


def test_an_image_that_is_not_there_is_not_called_damaged(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"nowhere.png cannot be read \(No such file or directory\)"):
        open_image(str(tmp_path / "nowhere.png"))


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


RAMP = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
COLOURS = np.random.default_rng(0).integers(0, 256, (8, 6, 3), dtype=np.uint8)


def saved(path: Path, image: Image.Image | NDArray[np.generic], **options: Any) -> Path:
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(path, **options)
    return path


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_sixteen_bits_become_eight_and_are_not_clipped(tmp_path: Path, suffix: str) -> None:
    image = open_image(saved(tmp_path / f"a.{suffix}", RAMP), grey=True)
    assert np.abs(np.asarray(image).astype(float) - RAMP / 257).max() <= 0.5


@pytest.mark.parametrize("suffix", ["png", "webp", "tif", "bmp"])
def test_every_common_format_gives_the_pixels(tmp_path: Path, suffix: str) -> None:
    options = {"lossless": True} if suffix == "webp" else {}
    image = open_image(saved(tmp_path / f"a.{suffix}", COLOURS, **options))
    assert np.array_equal(np.asarray(image), COLOURS)


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_images_are_turned_as_the_camera_noted(tmp_path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = saved(tmp_path / "a.png", COLOURS, exif=exif)
    turns = {1: 0, 3: 2, 6: 3, 8: 1}[orientation]
    assert np.array_equal(np.asarray(open_image(path)), np.rot90(COLOURS, turns))
    assert np.array_equal(np.asarray(open_image(path, upright=False)), COLOURS)


def test_transparency_is_laid_over_white_and_told(tmp_path: Path) -> None:
    clear = Image.new("RGBA", (2, 1), (0, 0, 0, 255))
    clear.putpixel((1, 0), (0, 0, 0, 0))
    for name, image in (("a.png", clear), ("b.png", clear.convert("LA")), ("c.gif", clear)):
        notes: list[str] = []
        assert np.asarray(open_image(saved(tmp_path / name, image), grey=True, notes=notes)).tolist() == [[0, 255]]
        assert notes == ["transparency was laid over white"]
    opaque: list[str] = []
    open_image(saved(tmp_path / "d.png", Image.new("RGBA", (2, 2), (9, 9, 9, 255))), notes=opaque)
    assert not opaque


def test_palette_cmyk_and_one_bit_images_give_their_colours(tmp_path: Path) -> None:
    red = Image.new("RGB", (4, 4), (255, 0, 0))
    for name, image in (("p.png", red.convert("P")), ("c.tif", red.convert("CMYK")), ("p.gif", red)):
        assert np.asarray(open_image(saved(tmp_path / name, image)))[0, 0].tolist() == [255, 0, 0]
    assert np.asarray(open_image(saved(tmp_path / "1.png", Image.new("1", (2, 2), 1)))).min() == 255


def test_of_several_frames_the_first_is_taken_and_told(tmp_path: Path) -> None:
    frames = [Image.new("L", (2, 2), level) for level in (10, 200)]
    notes: list[str] = []
    path = saved(tmp_path / "a.gif", frames[0], save_all=True, append_images=frames[1:])
    assert np.asarray(open_image(path, grey=True, notes=notes))[0, 0] == 10
    assert notes == ["the first of several frames or pages was taken"]


def test_floating_point_images_are_read_from_0_to_1_and_refused_otherwise(tmp_path: Path) -> None:
    ramp = np.linspace(0, 1, 9, dtype=np.float32).reshape(3, 3)
    assert np.array_equal(np.asarray(open_image(saved(tmp_path / "a.tif", ramp), grey=True)), np.round(ramp * 255))
    for name, values in (("b.tif", ramp * 255), ("c.tif", (ramp * 1e6).astype(np.int32))):
        with pytest.raises(FileFormatError, match="nothing says which is black"):
            open_image(saved(tmp_path / name, values))


def test_what_is_no_whole_image_is_refused_by_name(tmp_path: Path) -> None:
    whole = saved(tmp_path / "whole.png", np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    (tmp_path / "empty.png").touch()
    (tmp_path / "cut.png").write_bytes(whole.read_bytes()[:2000])
    (tmp_path / "text.jpg").write_text("no image")
    (tmp_path / "folder.png").mkdir()
    for name, message in (
        ("empty", "0 bytes"),
        ("cut", "damaged"),
        ("text", "known format"),
        ("folder", "Is a directory"),
    ):
        path = next(tmp_path.glob(f"{name}.*"))
        with pytest.raises(FileFormatError, match=f"{path}.*{message}"):
            open_image(path)


@pytest.mark.parametrize("side", [10_000, 50_000])
def test_a_decompression_bomb_is_refused(tmp_path: Path, side: int) -> None:
    Image.new("1", (side, side)).save(tmp_path / "bomb.png")
    with pytest.raises(FileFormatError, match="fill the memory"):
        open_image(tmp_path / "bomb.png")


def test_the_centre_is_kept() -> None:
    wide = Image.new("RGB", (512, 256), "white")
    wide.paste("red", (144, 0, 368, 256))  # 224 columns around the middle
    assert centre(wide, 224, 256).getcolors() == [(224 * 224, (255, 0, 0))]


@pytest.mark.parametrize("size", [(256, 256), (100, 900), (900, 100), (1, 1), (224, 225)])
def test_any_size_becomes_the_final_size(size: tuple[int, int]) -> None:
    assert centre(Image.new("RGB", size), 224, 256).size == (224, 224)


def test_pixels_have_their_channels_first() -> None:
    assert torch.equal(to_pixels(Image.fromarray(COLOURS)), torch.from_numpy(COLOURS).permute(2, 0, 1))
