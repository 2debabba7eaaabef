"""Synthesised frost: random fields with the spectrum of the photographs, coloured by their grey level.

The photographs are one of teal ice, one of dark and one of grey crystals and two of white ones. Their colours and
spectra were measured on what the published generator makes with them.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

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

Palette = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Ice:
    """Colours from dark to light, and how much fine grain there is beside the clouds."""

    palette: Palette
    grain: float


_WHITE = Ice(
    (
        (80, 82, 88),
        (147, 150, 157),
        (175, 178, 186),
        (191, 195, 204),
        (201, 206, 215),
        (210, 215, 225),
        (219, 224, 234),
        (229, 234, 243),
        (240, 245, 252),
    ),
    0.04,
)
KINDS = (
    Ice(
        (
            (25, 105, 125),
            (40, 121, 141),
            (49, 129, 150),
            (59, 138, 157),
            (70, 146, 163),
            (82, 153, 170),
            (99, 164, 178),
            (125, 178, 190),
            (160, 200, 205),
        ),
        0.03,
    ),
    Ice(
        (
            (15, 25, 35),
            (38, 49, 61),
            (56, 68, 80),
            (75, 87, 100),
            (93, 105, 117),
            (113, 125, 137),
            (140, 151, 162),
            (179, 189, 199),
            (240, 245, 250),
        ),
        0.12,
    ),
    Ice(
        (
            (30, 40, 50),
            (70, 83, 94),
            (109, 122, 134),
            (129, 144, 156),
            (144, 158, 171),
            (156, 171, 184),
            (173, 187, 201),
            (206, 220, 233),
            (250, 252, 255),
        ),
        0.14,
    ),
    _WHITE,
    _WHITE,
)


@cache
def synthesise() -> tuple[NDArray[np.uint8], ...]:
    """One picture (rows, columns, RGB) for each kind of ice, always the same ones."""
    return tuple(_picture(ice, np.random.default_rng(seed)) for seed, ice in enumerate(KINDS))


def _picture(ice: Ice, stream: np.random.Generator) -> NDArray[np.uint8]:
    darker = ndtr(_field(ice.grain, stream))
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
