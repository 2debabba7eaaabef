import numpy as np
import pytest
import torch
from scipy import ndimage
from torch import Tensor
from torch.testing import assert_close

from shiftmatch.corruptions.blur import (
    _copy_neighbours,
    defocus_blur,
    directional_blur,
    disk_kernel,
    zoom_blur,
    zoom_centre,
)
from shiftmatch.corruptions.ops import truncate_levels

GENERATOR = torch.Generator().manual_seed(0)
FLAT = torch.full((1, 3, 20, 24), 0.3)


def copied_one_by_one(x: Tensor, shifts: Tensor, max_shift: int) -> Tensor:
    x, (height, width) = x.clone(), x.shape[-2:]
    for b in range(len(x)):
        for row in range(height - max_shift, max_shift, -1):
            for col in range(width - max_shift, max_shift, -1):
                down, right = shifts[b, :, row, col].tolist()
                x[b, :, row, col] = x[b, :, row + down, col + right]
    return x


@pytest.mark.parametrize("max_shift", [1, 2, 4])
def test_copying_at_once_equals_copying_one_by_one(max_shift: int) -> None:
    x = torch.rand(2, 3, 17, 21, generator=GENERATOR)
    shifts = torch.randint(-max_shift, max_shift, (2, 2, 17, 21), generator=GENERATOR)
    assert torch.equal(_copy_neighbours(x, shifts, max_shift), copied_one_by_one(x, shifts, max_shift))


@pytest.mark.parametrize(("radius", "side"), [(0.3, 17), (8, 17), (10, 21)])
def test_a_disc_is_symmetric_and_nearly_normalised(radius: float, side: int) -> None:
    kernel = disk_kernel(radius, 0.5)
    assert kernel.shape == (side, side)
    assert_close(kernel, kernel.T)
    # A disc that touches the grid's border is softened by its own mirror image there, as in the published generator.
    assert abs(kernel.sum().item() - 1) < 0.02


def test_blurring_leaves_a_flat_image_as_it_is() -> None:
    assert_close(defocus_blur(FLAT, 6, 0.5), FLAT)
    assert_close(zoom_blur(FLAT, 1.2, 0.02), FLAT)


def test_directional_blur_equals_a_walk_over_pixels() -> None:
    angles, radius, sigma = torch.tensor([30.0, -100.0]), 3, 1.5
    weights = np.exp(-(np.arange(7) ** 2) / (2 * sigma**2))
    weights /= weights.sum()
    x = torch.rand(2, 3, 13, 9, generator=GENERATOR)
    expected = torch.zeros_like(x)
    for b, radians in enumerate(np.deg2rad(angles.numpy())):
        for i, weight in enumerate(weights):
            down, right = (int(np.ceil(i * along - 0.5)) for along in (np.sin(radians), np.cos(radians)))
            rows, cols = (np.arange(13) + down).clip(0, 12), (np.arange(9) + right).clip(0, 8)
            expected[b] += weight * x[b][:, rows][:, :, cols]
    assert_close(directional_blur(x, angles, radius, sigma), truncate_levels(expected))


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
