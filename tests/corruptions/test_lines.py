import itertools
import math

import numpy as np
import torch
from fidelity import clean, reference
from numpy.typing import NDArray
from shared_data import needs_shared

from shiftmatch.corruptions.lines import dotted_line, segment, zigzag
from shiftmatch.corruptions.randomness import Streams

BLACK = torch.zeros(6, 1, 28, 28)
STREAMS = Streams.of(torch.arange(6, dtype=torch.uint8).reshape(6, 1, 1, 1), "lines")


def line_by_pixel(first: int, last: int) -> NDArray[np.float64]:
    picture = np.zeros((28, 28))
    for row, col in itertools.product(range(28), range(27)):
        distance = abs(row - (first + (last - first) * col / 27))
        if col // 2 % 2 == 1 and distance < 2.3:
            picture[row, col] = min(max(math.log(1 - distance / 2.3) + 1, 0), 1)
    return picture


def test_a_dotted_line_is_drawn_pixel_by_pixel() -> None:
    candidates = np.stack([line_by_pixel(a, b) for a in range(27) for b in range(27)])
    for picture in dotted_line(BLACK, STREAMS)[:, 0].numpy():
        assert np.abs(candidates - picture).max((1, 2)).min() < 1e-5


@needs_shared
def test_the_published_dotted_lines_are_such_lines() -> None:
    candidates = np.stack([line_by_pixel(a, b) for a in range(27) for b in range(27)])
    digits, dotted = clean("mnist-c").double().numpy() / 255, reference("mnist-c", "dotted_line", None).double().numpy()
    for digit, published in zip(digits[:20, 0], dotted[:20, 0], strict=True):
        assert np.abs((digit + candidates).clip(0, 1) * 255 - published).max((1, 2)).min() <= 0.5 + 1e-6


def test_a_segment_is_brightest_on_its_line() -> None:
    rows, cols = torch.arange(9.0)[:, None], torch.arange(12.0)[None]
    line = segment((rows - 4)[None], cols, 2, 8, 0.0)[0]
    assert torch.equal(line[4] == 1, (cols[0] >= 2) & (cols[0] < 8))
    assert not line[:2].any()


def test_a_zigzag_keeps_to_its_margins_and_rises_and_falls() -> None:
    drawn = zigzag(BLACK, STREAMS)[:, 0]
    assert not drawn[..., :2].any()
    assert not drawn[..., -2:].any()
    heights = drawn[..., 4:24].argmax(1)
    assert torch.all(heights.amax(1) - heights.amin(1) >= 1)
