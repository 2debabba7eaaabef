import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from shiftmatch.corruptions.blur import _copy_neighbours, defocus_blur, disc, zoom_blur

GENERATOR = torch.Generator().manual_seed(0)
FLAT = torch.full((1, 3, 20, 24), 0.3)


def copied_one_by_one(x: Tensor, shifts: Tensor, reach: int) -> Tensor:
    x, (height, width) = x.clone(), x.shape[-2:]
    for b in range(len(x)):
        for row in range(height - reach, reach, -1):
            for col in range(width - reach, reach, -1):
                down, right = shifts[b, :, row, col].tolist()
                x[b, :, row, col] = x[b, :, row + down, col + right]
    return x


@pytest.mark.parametrize("reach", [1, 2, 4])
def test_copying_at_once_equals_copying_one_by_one(reach: int) -> None:
    x = torch.rand(2, 3, 17, 21, generator=GENERATOR)
    shifts = torch.randint(-reach, reach, (2, 2, 17, 21), generator=GENERATOR)
    assert torch.equal(_copy_neighbours(x, shifts, reach), copied_one_by_one(x, shifts, reach))


@pytest.mark.parametrize(("radius", "side"), [(0.3, 17), (8, 17), (10, 21)])
def test_a_disc_is_symmetric_and_nearly_normalised(radius: float, side: int) -> None:
    kernel = disc(radius, 0.5)
    assert kernel.shape == (side, side)
    assert_close(kernel, kernel.T)
    # A disc that touches the grid's border is softened by its own mirror image there, as in the published generator.
    assert abs(kernel.sum().item() - 1) < 0.02


def test_blurring_leaves_a_flat_image_as_it_is() -> None:
    assert_close(defocus_blur(FLAT, 6, 0.5), FLAT)
    assert_close(zoom_blur(FLAT, 1.2, 0.02), FLAT)
