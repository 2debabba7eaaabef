import colorsys
from itertools import product

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt
from torch import Tensor
from torch.testing import assert_close

from shiftmatch.corruptions.noise import Generators
from shiftmatch.corruptions.weather import (
    GREY_MUD,
    MAX_DISTANCE,
    MUD,
    _canny,
    _distance,
    _equalise,
    brightness,
    fog,
    mud,
    plasma,
    snow,
    spatter,
)

X = torch.rand(3, 3, 20, 24, generator=torch.Generator().manual_seed(0))
RNG = Generators.of((X * 255).to(torch.uint8), "weather")
LIGHT = torch.full((4, 3, 48, 48), 0.6)
DROPS = Generators.of(torch.arange(4, dtype=torch.uint8).reshape(4, 1, 1, 1), "spatter")
SQUARE = torch.zeros(1, 24, 24)
SQUARE[:, 8:16, 8:16] = 255

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
    fogged = fog(X, RNG, 1.5, 1.75, side=32)
    assert torch.all(fogged.amax((1, 2, 3)) <= X.amax((1, 2, 3)) + 1e-6)


def test_snow_brightens_everywhere() -> None:
    assert torch.all(snow(X, RNG, 0.3, 0.3, 1.25, 0.65, 14, 12, 0.8) >= X - 1e-6)


def test_brightness_keeps_hue_and_saturation() -> None:
    dark = X * 0.5 + 0.01
    bright = brightness(dark, 0.2)
    assert_close(bright.amax(1) - 0.2, dark.amax(1))
    assert_close(bright / bright.amax(1, keepdim=True), dark / dark.amax(1, keepdim=True))


def test_water_only_adds_light() -> None:
    wet = spatter(LIGHT, DROPS, 0.65, 0.3, 1, 0.69, 0.5, 0)
    assert torch.all(wet >= LIGHT)
    assert 0 < (wet > LIGHT).float().mean() < 0.6


def test_mud_lies_between_the_image_and_the_colour_of_mud() -> None:
    muddy = spatter(LIGHT, DROPS, 0.67, 0.4, 1, 0.65, 1.5, 1)
    for channel, colour in enumerate(MUD):
        assert muddy[:, channel].min() >= colour - 1e-6
    assert (muddy == LIGHT).any()
    assert (muddy < LIGHT).any()
    grey = mud(LIGHT[:, :1], DROPS, 0.67, 0.4, 1, 0.65, 1.5)
    assert grey.min() >= GREY_MUD - 1e-6


def test_equalising_spreads_levels_from_black_to_white() -> None:
    levels = torch.tensor([[[3.0, 3.0, 5.0, 9.0]]])
    assert _equalise(levels).tolist() == [[[0.0, 0.0, 128.0, 255.0]]]
    assert len(set(_equalise(torch.full((1, 2, 2), 7.0)).flatten().tolist())) == 1


def test_edges_surround_a_square_and_a_flat_image_has_none() -> None:
    edges = _canny(SQUARE, 50, 150)
    assert edges[0, 12].sum() == 2
    assert not edges[0, 10:14, 10:14].any()
    assert not _canny(torch.full((1, 24, 24), 128.0), 50, 150).any()


@pytest.mark.parametrize(
    "x", [X, torch.full((1, 3, 1, 1), 0.5), torch.zeros(1, 3, 1, 1)], ids=["colours", "grey", "black"]
)
def test_brightness_adds_to_the_value_of_hsv(x: Tensor) -> None:
    hsv = [colorsys.rgb_to_hsv(*pixel) for pixel in x.flatten(2)[0].T.tolist()]
    brighter = [colorsys.hsv_to_rgb(h, s, min(v + 0.3, 1)) for h, s, v in hsv]
    assert_close(brightness(x, 0.3).flatten(2)[0].T, torch.tensor(brighter))


@pytest.mark.parametrize("share", [0.0, 0.001, 0.02, 0.5, 1.0])
def test_distances_are_those_of_scipy_up_to_the_largest_one(share: float) -> None:
    edges = torch.rand(3, 50, 65, generator=torch.Generator().manual_seed(0)) < share
    expected = [distance_transform_edt(~edge) if edge.any() else np.full(edge.shape, np.inf) for edge in edges.numpy()]
    assert torch.equal(_distance(edges), torch.tensor(np.stack(expected)).clamp_max(MAX_DISTANCE).float())
