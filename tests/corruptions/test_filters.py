import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage
from torch.testing import assert_close

from shiftmatch.corruptions.filters import Border, correlate, fold, smooth, streak
from shiftmatch.corruptions.levels import cut_levels

X = torch.rand(2, 3, 13, 9, generator=torch.Generator().manual_seed(0))


@given(st.integers(2, 9), st.sampled_from(["edge", "mirror", "reflect"]))
def test_fold_continues_an_axis_as_numpy_pads_it(size: int, border: Border) -> None:
    mode = {"edge": "edge", "mirror": "reflect", "reflect": "symmetric"}[border]
    padded = np.pad(np.arange(size), 20, mode=mode)  # type: ignore[call-overload]
    assert fold(torch.arange(-20, size + 20), size, border).tolist() == padded.tolist()


@pytest.mark.parametrize("border", ["edge", "mirror", "reflect"])
@pytest.mark.parametrize("sigma", [0.4, 1.0, 6.0])
def test_smooth_equals_scipy(border: Border, sigma: float) -> None:
    expected = ndimage.gaussian_filter(
        X.double().numpy(), sigma, mode="nearest" if border == "edge" else border, axes=(2, 3)
    )
    assert_close(smooth(X, sigma, border=border).double(), torch.from_numpy(expected), rtol=0, atol=1e-5)


def test_correlate_equals_scipy() -> None:
    kernel = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    expected = ndimage.correlate(X[0, 0].numpy(), kernel.numpy(), mode="mirror")
    assert_close(correlate(X, kernel, "mirror")[0, 0], torch.from_numpy(expected), rtol=0, atol=1e-5)


def test_streak_equals_a_walk_over_pixels() -> None:
    angles, radius, sigma = torch.tensor([30.0, -100.0]), 3, 1.5
    weights = np.exp(-(np.arange(7) ** 2) / (2 * sigma**2))
    weights /= weights.sum()
    expected = torch.zeros_like(X)
    for b, radians in enumerate(np.deg2rad(angles.numpy())):
        for i, weight in enumerate(weights):
            down, right = (int(np.ceil(i * along - 0.5)) for along in (np.sin(radians), np.cos(radians)))
            rows, cols = (np.arange(13) + down).clip(0, 12), (np.arange(9) + right).clip(0, 8)
            expected[b] += weight * X[b][:, rows][:, :, cols]
    assert_close(streak(X, angles, radius, sigma), cut_levels(expected))
