"""Pictures of frost: the published photographs where the user has them, else synthesised ones that resemble them."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from shiftmatch.corruptions.ice import synthesise
from shiftmatch.utils.files import frost_folder

Picture = Float[Tensor, "3 h w"]
PHOTOGRAPHS = 5
"""The published generator has six photographs and draws from the first five."""
PLAY = 1.25
"""A picture is at least this many times as large as the images it is laid over."""
SUFFIXES = {".png", ".jpg", ".jpeg"}


def frost_source(folder: Path | None = None) -> str:
    """Say which pictures of frost are used: "photographs in <folder>" or "synthetic".

    >>> frost_source(Path("no such folder"))
    'synthetic'
    """
    found = _photographs(folder)
    return f"photographs in {found[0].parent}" if found else "synthetic"


def plates(folder: Path | None, stride: int, height: int, width: int) -> tuple[Picture, ...]:
    """The pictures to cut from, every stride-th pixel of each, enlarged if the image would not fit."""
    return _plates(tuple(_photographs(folder)), stride, height, width)


def _photographs(folder: Path | None) -> list[Path]:
    folder = folder or frost_folder()
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return [file for file in files if file.suffix.lower() in SUFFIXES][:PHOTOGRAPHS]


@lru_cache(maxsize=8)
def _plates(files: tuple[Path, ...], stride: int, height: int, width: int) -> tuple[Picture, ...]:
    pictures = [_read(file) for file in files] if files else synthesise()
    return tuple(_fit(picture[stride // 2 :: stride, stride // 2 :: stride], height, width) for picture in pictures)


def _read(file: Path) -> NDArray[np.uint8]:
    with Image.open(file) as picture:
        return np.asarray(picture.convert("RGB"))


def _fit(picture: NDArray[np.uint8], height: int, width: int) -> Picture:
    """Enlarge a picture until an image of the given size fits in with some play."""
    rows, cols = picture.shape[:2]
    factor = max(1.0, PLAY * height / rows, PLAY * width / cols)
    if factor > 1:
        picture = np.asarray(Image.fromarray(picture).resize((round(cols * factor), round(rows * factor))))
    return torch.from_numpy(np.array(picture)).movedim(-1, 0).float() / 255
