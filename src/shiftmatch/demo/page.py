"""The page of the demo: one file that needs no network, fits a phone, and follows the reader's light or dark mode."""

import io
from collections.abc import Mapping

import torch
from markupsafe import Markup
from PIL import Image

from shiftmatch.errors import InputError
from shiftmatch.evaluation.scores import Scores
from shiftmatch.report import figures
from shiftmatch.report.figure_files import inline_svg
from shiftmatch.report.grid import grid_of
from shiftmatch.report.html import HeatTable, png_address, render
from shiftmatch.report.sentences import interval_note, losses, sentences
from shiftmatch.report.summary import compare
from shiftmatch.shapes import Pixels

GAP = 2
"""Pixels between digits."""

Pair = tuple[Pixels, Pixels]


def demo_page(scores: Scores, *, pictures: Mapping[str, Pair], baseline: str, method: str, note: str) -> str:
    """The page as text: the means of the methods as bars, the whole table, pictures, shifts of the features.

    `scores` are accuracies on one data set, and shifts; the headline compares `method` with `baseline`.
    """
    grid = grid_of(scores, scores.values("data")[0], "accuracy")
    found = compare(grid, baseline, method)
    if found is None:
        raise InputError(f"The scores have no accuracies of both {baseline!r} and {method!r}; evaluate both.")
    show, change = grid.measure.show, found.overall
    images = f" ({change.after.n:,} images, corruptions made here)" if change.after.n else ""
    bars = figures.mean_bars(scores, method=method)
    return render(
        "demo.html",
        title="shiftmatch demo",
        headline=f"Corrupted digits: {show(change.before.value)} right becomes {show(change.after.value)}{images}",
        sentences=[*sentences(found), losses(found)],
        interval_note=interval_note(found),
        means=Markup(inline_svg(bars, "accuracy of every method, mean over the corruptions")),
        baseline=baseline,
        table=HeatTable.of(grid, baseline),
        pictures={name: _png(_sheet(*pair)) for name, pair in pictures.items()},
        shifts=Markup(inline_svg(figures.layer_shift(scores), "how far the features of every layer have moved")),
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
