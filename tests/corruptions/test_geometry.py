import pytest
import torch
from scipy import ndimage
from torch.testing import assert_close

from shiftmatch.corruptions.filters import Border
from shiftmatch.corruptions.geometry import sample, sample_on_black, zoom_centre

X = torch.rand(2, 3, 12, 15, generator=torch.Generator().manual_seed(0))
ROWS, COLS = (torch.rand(2, 2, 12, 15, generator=torch.Generator().manual_seed(1)) * 40 - 12).unbind(0)


@pytest.mark.parametrize("border", ["edge", "mirror", "reflect"])
def test_sample_equals_scipy(border: Border) -> None:
    expected = ndimage.map_coordinates(
        X[1, 2].numpy(), [ROWS[1].numpy(), COLS[1].numpy()], order=1, mode="nearest" if border == "edge" else border
    )
    assert_close(sample(X, ROWS, COLS, border)[1, 2], torch.from_numpy(expected), rtol=0, atol=1e-4)


def test_beyond_the_border_lies_black() -> None:
    expected = ndimage.map_coordinates(
        X[0, 0].numpy(), [ROWS[0].numpy(), COLS[0].numpy()], order=1, mode="grid-constant"
    )
    assert_close(sample_on_black(X, ROWS, COLS)[0, 0], torch.from_numpy(expected), rtol=0, atol=1e-4)


@pytest.mark.parametrize("factor", [1.0, 1.06, 1.75, 3.0])
def test_zoom_equals_scipy_on_the_cropped_centre(factor: float) -> None:
    picture = torch.rand(20, 20, generator=torch.Generator().manual_seed(2))
    crop = -int(-20 // factor)
    top = (20 - crop) // 2
    large = ndimage.zoom(picture[top : top + crop, top : top + crop].numpy(), factor, order=1)
    trim = (len(large) - 20) // 2
    assert_close(
        zoom_centre(picture, factor), torch.from_numpy(large[trim : trim + 20, trim : trim + 20]), rtol=0, atol=1e-5
    )
