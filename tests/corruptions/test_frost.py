from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from shiftmatch.corruptions import corrupt, frost_source
from shiftmatch.corruptions.frost import KINDS, SIDE, frost, synthesise, textures
from shiftmatch.corruptions.noise import Generators

BLACK = torch.zeros(3, 3, 32, 32, dtype=torch.uint8)


def photographs(folder: Path, count: int = 6) -> Path:
    for number in range(1, count + 1):
        Image.fromarray(np.full((200, 220, 3), 40 * number, np.uint8)).save(folder / f"frost{number}.png")
    return folder


def test_photographs_are_used_where_there_are_any(tmp_path: Path) -> None:
    assert frost_source(tmp_path) == "synthetic"
    photographs(tmp_path)
    assert frost_source(tmp_path) == f"photographs in {tmp_path}"
    frosted = corrupt(BLACK, "frost", severity=5, frost=tmp_path)
    assert set(frosted.flatten().tolist()) <= {int(0.45 * 40 * number) for number in range(1, 6)}


def test_the_folder_of_the_environment_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "frost").mkdir()
    photographs(tmp_path / "frost")
    monkeypatch.setenv("SHIFTMATCH_DATA", str(tmp_path))
    assert frost_source() == f"photographs in {tmp_path / 'frost'}"


def test_large_images_get_enlarged_pictures(tmp_path: Path) -> None:
    pictures = textures(photographs(tmp_path), 1, 300, 500)
    assert len(pictures) == 5
    assert all(picture.shape[1] > 300 and picture.shape[2] > 500 for picture in pictures)


def test_synthetic_pictures_are_always_the_same_and_have_their_colours() -> None:
    first, again = synthesise(), synthesise.__wrapped__()
    assert len(first) == len(KINDS)
    for picture, same, ice in zip(first, again, KINDS, strict=True):
        assert picture.shape == (SIDE, SIDE, 3)
        assert np.array_equal(picture, same)
        assert np.abs(np.median(picture, (0, 1)) - ice.palette[len(ice.palette) // 2]).max() < 5


def test_frost_of_no_weight_is_no_frost() -> None:
    x = torch.rand(3, 3, 20, 24, generator=torch.Generator().manual_seed(0))
    rng = Generators.of((x * 255).to(torch.uint8), "frost")
    assert torch.equal(frost(x, rng, 1.0, 0.0, stride=5), x)
