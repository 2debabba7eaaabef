"""The page of the demo: one file that needs no network, fits a phone, and follows the reader's light or dark mode."""

import io
from collections.abc import Mapping

import torch
from PIL import Image

from shiftmatch.report.bars import bars, shift_bars
from shiftmatch.report.blocks import Block
from shiftmatch.report.heat import heat_map
from shiftmatch.report.measures import measure
from shiftmatch.report.pages import png_address, render
from shiftmatch.shapes import Pixels

GAP = 2
"""Pixels between digits."""

Row = Mapping[str, float]
Pair = tuple[Pixels, Pixels]


def demo_page(
    *,
    accuracy: Mapping[str, Row],
    pictures: Mapping[str, Pair],
    shifts: Mapping[str, Row],
    baseline: str,
    method: str,
    mean: str,
    note: str,
) -> str:
    """The page as text: bars of the row `mean`, the whole table, pictures, shifts.

    `accuracy` and `shifts` are tables by row and column; the headline compares `method` with `baseline`.
    """
    means, show = accuracy[mean], measure("accuracy")
    rows = {name: row for name, row in accuracy.items() if name != mean}
    texts = {name: show.number(value) for name, value in means.items()}
    return render(
        "demo.html",
        title="shiftmatch demo",
        headline=f"Corrupted digits: {show.show(means[baseline])} right becomes {show.show(means[method])}",
        means=bars(means, texts, high=1.0, best=max(means, key=lambda name: means[name])),
        methods=list(means),
        table=heat_map(Block("", rows, means), show, baseline, (0.0, 1.0)),
        pictures={name: _png(_sheet(*pair)) for name, pair in pictures.items()},
        shifts=shift_bars(shifts),
        note=note,
    )


def _sheet(before: Pixels, after: Pixels) -> Image.Image:
    """Grey digits side by side, the first row before and the second after."""
    rows, columns = before.shape[-2:]
    sheet = torch.full((2 * rows + GAP, len(before) * (columns + GAP) - GAP), 128, dtype=torch.uint8)
    for top, digits in ((0, before), (rows + GAP, after)):
        for index, digit in enumerate(digits[:, 0]):
            left = index * (columns + GAP)
            sheet[top : top + rows, left : left + columns] = digit
    return Image.fromarray(sheet.numpy())


def _png(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return png_address(buffer.getvalue())
