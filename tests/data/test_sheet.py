import numpy as np
import pytest
from made_sets import make_images
from PIL import Image

from shiftmatch.corruptions import names
from shiftmatch.data.sheet import GAP, HEADER, LABEL_WIDTH, sheet


@pytest.mark.parametrize(("suite", "cell", "columns"), [("cifar10-c", 128, 6), ("mnist-c", 112, 2)])
def test_there_is_a_cell_for_every_corruption_and_severity(suite: str, cell: int, columns: int) -> None:
    image = Image.fromarray(make_images(1, 70, 90, 3)[0])
    drawn = sheet(image, suite, progress=False)
    step = cell + GAP
    assert drawn.size == (LABEL_WIDTH + columns * step + GAP, HEADER + len(names(suite)) * step)
    pixels = np.asarray(drawn)
    for row in range(len(names(suite))):
        cells = [
            pixels[HEADER + row * step :, LABEL_WIDTH + column * step :][:cell, :cell].copy()
            for column in range(columns)
        ]
        assert not (cells[0] == 255).all()
        assert all((other != cells[0]).any() for other in cells[1:])
