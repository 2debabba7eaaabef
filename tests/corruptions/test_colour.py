import colorsys

import pytest
import torch
from torch.testing import assert_close

from shiftmatch.corruptions.colour import add_value, change_saturation, in_colour, luminance

X = torch.rand(1, 3, 6, 7, generator=torch.Generator().manual_seed(0))
GREY = torch.full((1, 3, 1, 1), 0.5)


@pytest.mark.parametrize("x", [X, GREY, torch.zeros(1, 3, 1, 1)], ids=["colours", "grey", "black"])
def test_changes_in_hsv_equal_the_standard_library(x: torch.Tensor) -> None:
    pixels = x.flatten(2)[0].T.tolist()
    hsv = [colorsys.rgb_to_hsv(*pixel) for pixel in pixels]
    brighter = [colorsys.hsv_to_rgb(h, s, min(v + 0.3, 1)) for h, s, v in hsv]
    stronger = [colorsys.hsv_to_rgb(h, min(2 * s + 0.1, 1), v) for h, s, v in hsv]
    assert_close(add_value(x, 0.3).flatten(2)[0].T, torch.tensor(brighter))
    assert_close(change_saturation(x, 2, 0.1).flatten(2)[0].T, torch.tensor(stronger))


def test_a_grey_image_comes_back_grey() -> None:
    grey = X[:, :1]
    assert_close(in_colour(lambda rgb: rgb / 2, grey), grey / 2)
    assert_close(luminance(grey.expand(-1, 3, -1, -1)), grey)
