import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage
from torch.testing import assert_close

from shiftmatch.corruptions.ops import (
    Border,
    border_index,
    correlate,
    gaussian_filter,
    hysteresis,
    luminance,
    sample,
    truncate_levels,
)

X = torch.rand(2, 3, 12, 15, generator=torch.Generator().manual_seed(0))
ROWS, COLS = (torch.rand(2, 2, 12, 15, generator=torch.Generator().manual_seed(1)) * 40 - 12).unbind(0)


@given(st.integers(2, 9), st.sampled_from(["edge", "mirror", "reflect"]))
def test_a_border_continues_an_axis_as_numpy_pads_it(size: int, border: Border) -> None:
    mode = {"edge": "edge", "mirror": "reflect", "reflect": "symmetric"}[border]
    padded = np.pad(np.arange(size), 20, mode=mode)  # type: ignore[call-overload]
    assert border_index(torch.arange(-20, size + 20), size, border).tolist() == padded.tolist()


@pytest.mark.parametrize("border", ["edge", "mirror", "reflect"])
@pytest.mark.parametrize("sigma", [0.4, 1.0, 6.0])
def test_gaussian_filter_equals_scipy(border: Border, sigma: float) -> None:
    expected = ndimage.gaussian_filter(
        X.double().numpy(), sigma, mode="nearest" if border == "edge" else border, axes=(2, 3)
    )
    assert_close(gaussian_filter(X, sigma, border=border).double(), torch.from_numpy(expected), rtol=0, atol=1e-5)


def test_correlate_equals_scipy() -> None:
    kernel = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    expected = ndimage.correlate(X[0, 0].numpy(), kernel.numpy(), mode="mirror")
    assert_close(correlate(X, kernel, "mirror")[0, 0], torch.from_numpy(expected), rtol=0, atol=1e-5)


@pytest.mark.parametrize("border", ["edge", "mirror", "reflect"])
def test_sample_equals_scipy(border: Border) -> None:
    expected = ndimage.map_coordinates(
        X[1, 2].numpy(), [ROWS[1].numpy(), COLS[1].numpy()], order=1, mode="nearest" if border == "edge" else border
    )
    assert_close(sample(X, ROWS, COLS, border)[1, 2], torch.from_numpy(expected), rtol=0, atol=1e-4)


def test_whole_levels_stay_and_the_rest_is_rounded_down() -> None:
    levels = torch.arange(256)
    assert torch.equal((truncate_levels(levels / 255) * 255).round().long(), levels)
    assert torch.equal((truncate_levels((levels + 0.9) / 255) * 255).round().long(), levels)


def test_values_beyond_the_range_are_clipped() -> None:
    assert truncate_levels(torch.tensor([-0.5, 1.5])).tolist() == [0.0, 1.0]


def test_weak_edges_stay_only_where_they_reach_a_strong_one() -> None:
    weak = torch.tensor([[[1, 1, 0, 0, 1], [0, 0, 1, 0, 1], [0, 0, 0, 0, 0]]], dtype=torch.bool)
    strong = torch.zeros_like(weak)
    strong[0, 0, 0] = True
    assert hysteresis(strong, weak).nonzero()[:, 1:].tolist() == [[0, 0], [0, 1], [1, 2]]


def test_grey_is_its_own_luminance() -> None:
    grey = X[:, :1]
    assert_close(luminance(grey), grey)
    assert_close(luminance(grey.expand(-1, 3, -1, -1)), grey)
