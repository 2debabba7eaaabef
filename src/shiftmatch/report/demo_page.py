"""The page of the demo: one file that needs no network, fits a phone, and follows the reader's light or dark mode."""

import base64
import io
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from string import Template

import torch
from PIL import Image

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
    means = accuracy[mean]
    headline = f"Corrupted digits: {_percent(means[baseline])}\u00a0% right becomes {_percent(means[method])}\u00a0%"
    template = Template((files("shiftmatch.report") / "demo.html").read_text(encoding="utf-8"))
    return template.substitute(
        headline=escape(headline),
        means=_bars({name: 100 * value for name, value in means.items()}, limit=100.0, digits=1),
        table=_table(accuracy, last=mean),
        pictures="".join(_figure(name, *pair) for name, pair in pictures.items()),
        shifts=_all_shifts(shifts),
        note=escape(note),
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _readable(name: str) -> str:
    return escape(name.replace("_", " "))


def _bars(values: Row, *, limit: float, digits: int, mark_best: bool = True) -> str:
    """Horizontal bars with their names and values; the largest is marked."""
    best = max(values, key=lambda name: values[name]) if mark_best else None
    rows = []
    for name, value in values.items():
        kind = " best" if name == best else ""
        tag = "strong" if name == best else "span"
        width = 100 * value / limit
        rows.append(
            f'<span>{_readable(name)}</span><span><span class="bar{kind}" style="display:block;width:{width:.1f}%">'
            f'</span></span><{tag} class="{kind.strip()}">{value:.{digits}f}</{tag}>'
        )
    return f'<div class="bars">{"".join(rows)}</div>'


def _table(accuracy: Mapping[str, Row], *, last: str) -> str:
    columns = list(accuracy[last])
    head = "".join(f'<th scope="col">{_readable(name)}</th>' for name in ("corruption", *columns))
    body = "".join(_table_row(name, row, name == last) for name, row in accuracy.items())
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _table_row(name: str, row: Row, is_last: bool) -> str:
    best = max(row.values())
    cells = "".join(
        f'<td class="{"best" if value == best else ""}" style="background:rgba(var(--heat),{_heat(value):.2f})">'
        f"{_percent(value)}</td>"
        for value in row.values()
    )
    return f'<tr class="{"mean" if is_last else ""}"><th scope="row">{_readable(name)}</th>{cells}</tr>'


def _heat(share: float) -> float:
    """How strongly a cell is coloured; squared, because the differences that matter are among high values."""
    return 0.45 * share**2


def _figure(name: str, before: Pixels, after: Pixels) -> str:
    alternative = f"{name.replace('_', ' ')}: digits before matching, and below them after"
    return (
        f"<figure><figcaption><span>{_readable(name)}</span></figcaption>"
        f'<img alt="{escape(alternative)}" src="{_png(_sheet(before, after))}"></figure>'
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
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _all_shifts(shifts: Mapping[str, Row]) -> str:
    """One figure for each corruption, all on one scale."""
    limit = max(value for row in shifts.values() for value in row.values())
    return "".join(
        f"<figure><strong>{_readable(name)}</strong>{_bars(row, limit=limit, digits=2, mark_best=False)}</figure>"
        for name, row in shifts.items()
    )
