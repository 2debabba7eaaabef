import itertools
import math

import numpy as np
import pytest
import torch
from fidelity import clean, reference
from numpy.typing import NDArray
from scipy import ndimage
from shared_data import needs_shared
from torch import Tensor
from torch.testing import assert_close

from shiftmatch.corruptions import mnist
from shiftmatch.corruptions.noise import Generators

LEVELS = torch.randint(0, 256, (5, 1, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
X = LEVELS / 255
RNG = Generators.of(LEVELS, "mnist")
BLACK = torch.zeros(6, 1, 28, 28)
LINES = Generators.of(torch.arange(6, dtype=torch.uint8).reshape(6, 1, 1, 1), "lines")
SQUARE = torch.zeros(1, 24, 24)
SQUARE[:, 8:16, 8:16] = 1
ROWS, COLS = (torch.rand(2, 5, 28, 28, generator=torch.Generator().manual_seed(1)) * 60 - 16).unbind(0)


def swapped_one_by_one(x: Tensor, shifts: Tensor, max_shift: int) -> Tensor:
    x, (height, width) = x.clone(), x.shape[-2:]
    for b in range(len(x)):
        for row in range(height - max_shift, max_shift, -1):
            for col in range(width - max_shift, max_shift, -1):
                down, right = shifts[b, :, row, col].tolist()
                here = x[b, :, row, col].clone()
                x[b, :, row, col] = x[b, :, row + down, col + right]
                x[b, :, row + down, col + right] = here
    return x


@pytest.mark.parametrize("max_shift", [1, 3])
def test_swapping_in_batches_equals_swapping_image_by_image(max_shift: int) -> None:
    shifts = torch.randint(-max_shift, max_shift, (5, 2, 28, 28), generator=torch.Generator().manual_seed(1))
    assert torch.equal(mnist._swap_neighbours(X, shifts, max_shift), swapped_one_by_one(X, shifts, max_shift))


def test_a_translation_moves_every_pixel_by_whole_steps() -> None:
    moved = mnist.translate(X, RNG, 3)
    for before, after in zip(X, moved, strict=True):
        shifts = [(down, right) for down in (-3, 3) for right in (-3, 3)]
        inner = [torch.equal(after[:, 3:-3, 3:-3], before.roll(s, (1, 2))[:, 3:-3, 3:-3]) for s in shifts]
        assert sum(inner) == 1


def test_a_quarter_turn_is_exact() -> None:
    turned = mnist.rotate(X, RNG, torch.pi / 2)
    for before, after in zip(X, turned, strict=True):
        gaps = [(after - before.rot90(k, (1, 2))).abs().max() for k in (1, -1)]
        assert min(gaps) < 1e-4


def test_shrinking_and_shearing_keep_the_centre() -> None:
    dot = torch.zeros(1, 1, 29, 29)
    dot[..., 14, 14] = 1
    rng = Generators.of(torch.zeros(1, 1, 1, 1, dtype=torch.uint8), "dot")
    assert mnist.scale(dot, 0.5)[0, 0, 14, 14] == 1
    assert_close(mnist.shear(dot, rng, 0.4)[0, 0, 14, 14], torch.tensor(1.0))


def test_stripes_invert_the_outer_quarters() -> None:
    striped = mnist.stripe(X)
    assert torch.equal(striped[..., 7:21], X[..., 7:21])
    assert torch.equal(striped[..., :7], 1 - X[..., :7])
    assert torch.equal(striped[..., 21:], 1 - X[..., 21:])


def test_edges_are_black_and_white() -> None:
    assert set(mnist.canny_edges(X).flatten().tolist()) <= {0.0, 1.0}


def line_by_pixel(first: int, last: int) -> NDArray[np.float64]:
    picture = np.zeros((28, 28))
    for row, col in itertools.product(range(28), range(27)):
        distance = abs(row - (first + (last - first) * col / 27))
        if col // 2 % 2 == 1 and distance < 2.3:
            picture[row, col] = min(max(math.log(1 - distance / 2.3) + 1, 0), 1)
    return picture


def test_a_dotted_line_is_drawn_pixel_by_pixel() -> None:
    candidates = np.stack([line_by_pixel(a, b) for a in range(27) for b in range(27)])
    for picture in mnist.dotted_line(BLACK, LINES)[:, 0].numpy():
        assert np.abs(candidates - picture).max((1, 2)).min() < 1e-5


@needs_shared
def test_the_published_dotted_lines_are_such_lines() -> None:
    candidates = np.stack([line_by_pixel(a, b) for a in range(27) for b in range(27)])
    digits, dotted = clean("mnist-c").double().numpy() / 255, reference("mnist-c", "dotted_line", None).double().numpy()
    for digit, published in zip(digits[:20, 0], dotted[:20, 0], strict=True):
        assert np.abs((digit + candidates).clip(0, 1) * 255 - published).max((1, 2)).min() <= 0.5 + 1e-6


def test_a_segment_is_brightest_on_its_line() -> None:
    rows, cols = torch.arange(9.0)[:, None], torch.arange(12.0)[None]
    line = mnist.segment((rows - 4)[None], cols, 2, 8, 0.0)[0]
    assert torch.equal(line[4] == 1, (cols[0] >= 2) & (cols[0] < 8))
    assert not line[:2].any()


def test_a_zigzag_keeps_to_its_margins_and_rises_and_falls() -> None:
    drawn = mnist.zigzag(BLACK, LINES)[:, 0]
    assert not drawn[..., :2].any()
    assert not drawn[..., -2:].any()
    heights = drawn[..., 4:24].argmax(1)
    assert torch.all(heights.amax(1) - heights.amin(1) >= 1)


def test_beyond_the_border_lies_black() -> None:
    expected = ndimage.map_coordinates(
        X[0, 0].numpy(), [ROWS[0].numpy(), COLS[0].numpy()], order=1, mode="grid-constant"
    )
    assert_close(mnist._sample_on_black(X, ROWS, COLS)[0, 0], torch.from_numpy(expected), rtol=0, atol=1e-4)


def test_the_edges_of_a_square_surround_it() -> None:
    edges = mnist._canny(SQUARE, 1.0, 0.1, 0.2)
    assert edges[0, 12].nonzero().flatten().tolist() in ([7, 16], [8, 15], [7, 8, 15, 16])
    assert not edges[0, 10:14, 10:14].any()
    assert not edges[0, :5].any()


def test_a_flat_image_has_no_edges() -> None:
    assert not mnist._canny(torch.full((1, 24, 24), 0.5), 1.0, 0.1, 0.2).any()
