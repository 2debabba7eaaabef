from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from torch.testing import assert_close

from shiftmatch.corruptions.randomness import Streams
from shiftmatch.corruptions.weather import brightness, fog, frost, plasma, snow

X = torch.rand(3, 3, 20, 24, generator=torch.Generator().manual_seed(0))
STREAMS = Streams.of((X * 255).to(torch.uint8), "weather")

Array = NDArray[np.float64]


def plasma_by_pixel(noise: Array, decay: float) -> Array:
    size = step = len(noise)
    heights, wobble = np.zeros_like(noise), 100.0
    while step >= 2:
        half = step // 2
        diagonal = [(down, right) for down in (-half, half) for right in (-half, half)]
        straight = [(-half, 0), (half, 0), (0, -half), (0, half)]
        for top, left, neighbours in ((half, half, diagonal), (0, half, straight), (half, 0, straight)):
            for row, col in product(range(top, size, step), range(left, size, step)):
                around = [heights[(row + down) % size, (col + right) % size] for down, right in neighbours]
                heights[row, col] = np.mean(around) + wobble**2 * noise[row, col]
        step, wobble = half, wobble / decay
    heights -= heights.min()
    heights /= heights.max()
    return heights


def test_plasma_equals_a_walk_over_midpoints() -> None:
    noise = torch.rand(2, 16, 16, generator=torch.Generator().manual_seed(1)) * 2 - 1
    expected = plasma_by_pixel(noise[1].double().numpy(), 1.7)
    assert_close(plasma(noise, 1.7)[1].double(), torch.from_numpy(expected), rtol=0, atol=1e-5)


def test_fog_never_exceeds_the_brightest_value() -> None:
    fogged = fog(X, STREAMS, 1.5, 1.75, side=32)
    assert torch.all(fogged.amax((1, 2, 3)) <= X.amax((1, 2, 3)) + 1e-6)


def test_snow_brightens_everywhere() -> None:
    assert torch.all(snow(X, STREAMS, 0.3, 0.3, 1.25, 0.65, 14, 12, 0.8) >= X - 1e-6)


def test_brightness_keeps_hue_and_saturation() -> None:
    dark = X * 0.5 + 0.01
    bright = brightness(dark, 0.2)
    assert_close(bright.amax(1) - 0.2, dark.amax(1))
    assert_close(bright / bright.amax(1, keepdim=True), dark / dark.amax(1, keepdim=True))


def test_frost_of_no_weight_is_no_frost() -> None:
    assert_close(frost(X, STREAMS, 1.0, 0.0, stride=5), X)
