"""Frost: pieces of pictures of ice laid over the image.

The pictures are the published photographs where the user has them, else synthesised ones: random fields with the
spectrum of the photographs, coloured by their grey level. The photographs are one of teal ice, one of dark and one of
grey crystals and two of white ones; colours and spectra were measured on what the published generator makes of them.
"""

from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from shiftmatch.corruptions.noise import Generators
from shiftmatch.corruptions.ops import luminance
from shiftmatch.corruptions.severities import Number
from shiftmatch.shapes import Images
from shiftmatch.utils.files import frost_folder

Picture = Float[Tensor, "3 h w"]
PHOTOGRAPHS = 5
"""The published generator has six photographs and draws from the first five."""
MARGIN = 1.25
"""A picture is at least this many times as large as the images it is laid over."""
SUFFIXES = {".png", ".jpg", ".jpeg"}
SIDE = 800
CLOUDS = 1 / 160
"""Cycles per pixel of the pattern's scale."""
CLOUD_SLOPE, GRAIN_SLOPE = 3.0, 1.0
UNEVENNESS = 0.5
"""Standard deviation of the logarithm of the grain's local strength."""
ROLL_OFF = 0.35
"""Cycles per pixel above which the photographs lose detail."""
SHARES = (0.0, 0.025, 0.125, 0.3, 0.5, 0.7, 0.875, 0.975, 1.0)
"""Share of a picture that is darker than each colour of a palette."""


@dataclass(frozen=True)
class Ice:
    """Nine colours from dark to light, as on web pages, and how much fine grain there is beside the clouds."""

    colours: str
    grain: float

    @property
    def palette(self) -> list[tuple[int, ...]]:
        """Red, green and blue of each colour."""
        return [tuple(bytes.fromhex(colour)) for colour in self.colours.split()]


_WHITE = Ice("505258 93969d afb2ba bfc3cc c9ced7 d2d7e1 dbe0ea e5eaf3 f0f5fc", 0.04)
KINDS = (
    Ice("19697d 28798d 318196 3b8a9d 4692a3 5299aa 63a4b2 7db2be a0c8cd", 0.03),
    Ice("0f1923 26313d 384450 4b5764 5d6975 717d89 8c97a2 b3bdc7 f0f5fa", 0.12),
    Ice("1e2832 46535e 6d7a86 81909c 909eab 9cabb8 adbbc9 cedce9 fafcff", 0.14),
    _WHITE,
    _WHITE,
)


def frost(
    x: Images, rng: Generators, keep: Number, weight: Number, *, stride: int, folder: Path | None = None
) -> Images:
    """keep·x + weight·(a random piece of a random photograph of frost), of which every stride-th pixel is taken."""
    height, width = x.shape[-2:]
    pictures = textures(folder, stride, height, width)
    which = rng.integers(0, len(pictures)).tolist()
    corner = rng.uniform(0, 1, 2).tolist()
    pieces = [_piece(pictures[i], down, right, height, width) for i, (down, right) in zip(which, corner, strict=True)]
    ice = torch.stack(pieces).to(x)
    return keep * x + weight * (ice if x.shape[1] == 3 else luminance(ice))


def _piece(
    picture: Float[Tensor, "3 m n"], down: Number, right: Number, height: int, width: int
) -> Float[Tensor, "3 h w"]:
    top, left = int(down * (picture.shape[1] - height)), int(right * (picture.shape[2] - width))
    return picture[:, top : top + height, left : left + width]


def frost_source(folder: Path | None = None) -> str:
    """Say which pictures of frost are used: "photographs in <folder>" or "synthetic".

    Args:
        folder: where the published photographs would be.

    >>> frost_source(Path("no such folder"))
    'synthetic'
    """
    found = _photographs(folder)
    return f"photographs in {found[0].parent}" if found else "synthetic"


def textures(folder: Path | None, stride: int, height: int, width: int) -> tuple[Picture, ...]:
    """The pictures to cut from, every stride-th pixel of each, enlarged if the image would not fit."""
    return _textures(tuple(_photographs(folder)), stride, height, width)


def _photographs(folder: Path | None) -> list[Path]:
    folder = folder or frost_folder()
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return [file for file in files if file.suffix.lower() in SUFFIXES][:PHOTOGRAPHS]


@lru_cache(maxsize=8)
def _textures(files: tuple[Path, ...], stride: int, height: int, width: int) -> tuple[Picture, ...]:
    pictures = [_read(file) for file in files] if files else synthesise()
    return tuple(_fit(picture[stride // 2 :: stride, stride // 2 :: stride], height, width) for picture in pictures)


def _read(file: Path) -> NDArray[np.uint8]:
    with Image.open(file) as picture:
        return np.asarray(picture.convert("RGB"))


def _fit(picture: NDArray[np.uint8], height: int, width: int) -> Picture:
    """Enlarge a picture until an image of the given size fits in with some play."""
    rows, cols = picture.shape[:2]
    factor = max(1.0, MARGIN * height / rows, MARGIN * width / cols)
    if factor > 1:
        picture = np.asarray(Image.fromarray(picture).resize((round(cols * factor), round(rows * factor))))
    return torch.from_numpy(np.array(picture)).movedim(-1, 0).float() / 255


@cache
def synthesise() -> tuple[NDArray[np.uint8], ...]:
    """One picture (rows, columns, RGB) for each kind of ice, always the same ones."""
    return tuple(_picture(ice, np.random.default_rng(seed)) for seed, ice in enumerate(KINDS))


def _picture(ice: Ice, stream: np.random.Generator) -> NDArray[np.uint8]:
    darker = torch.special.ndtr(torch.from_numpy(_field(ice.grain, stream))).numpy()
    channels = [np.interp(darker, SHARES, colours) for colours in zip(*ice.palette, strict=True)]
    return np.stack(channels, -1).round().astype(np.uint8)


def _field(grain: float, stream: np.random.Generator) -> NDArray[np.float64]:
    """Clouds with the spectrum u^−3 and grain with grain/u, u = frequency / CLOUDS, the grain uneven as in real ice."""
    clouds, fine, patches = (_noise(slope, stream) for slope in (CLOUD_SLOPE, GRAIN_SLOPE, CLOUD_SLOPE))
    field: NDArray[np.float64] = clouds + grain**0.5 * fine * np.exp(
        UNEVENNESS * (patches / patches.std() - UNEVENNESS)
    )
    field -= field.mean()
    field /= field.std()
    return field


def _noise(slope: float, stream: np.random.Generator) -> NDArray[np.float64]:
    """A Gaussian random field with the power u^−slope, up to the roll-off."""
    frequency = np.hypot(np.fft.fftfreq(SIDE)[:, None], np.fft.rfftfreq(SIDE))
    frequency[0, 0] = np.inf
    power = (frequency / CLOUDS) ** -slope / (1 + (frequency / ROLL_OFF) ** 4)
    spectrum = np.fft.rfft2(stream.standard_normal((SIDE, SIDE))) * np.sqrt(power)
    field: NDArray[np.float64] = np.fft.irfft2(spectrum, (SIDE, SIDE))
    return field
