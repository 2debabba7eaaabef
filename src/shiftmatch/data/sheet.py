"""A contact sheet: one image under every corruption at every severity."""

from collections.abc import Iterator

from PIL import Image, ImageDraw, ImageFont

from shiftmatch.corruptions import corrupt, names
from shiftmatch.data.corrupted import layout_of
from shiftmatch.data.decoding import centre, to_pixels
from shiftmatch.data.images import SHORT_SIDE, SIDE
from shiftmatch.utils.files import frost_folder
from shiftmatch.utils.progress import track

CELL = 128
GAP = 4
LABEL_WIDTH = 150
FONT_SIZE = 14
HEADER = 2 * FONT_SIZE


def sheet(image: Image.Image, suite: str = "imagenet-c", *, seed: int = 0, progress: bool = True) -> Image.Image:
    """Rows: the corruptions of the suite; columns: the image as the suite takes it, then each severity.

    >>> sheet(Image.new("RGB", (64, 48)), "cifar10-c", progress=False).width
    946
    """
    layout = layout_of(suite)
    clean = _prepare(image, suite, layout.side)
    zoom = max(1, CELL // layout.side)
    columns = ("clean", *(f"severity {severity}" if severity else "published" for severity in layout.severities))
    step = zoom * layout.side + GAP
    corruptions = names(suite)
    canvas = Image.new("RGB", (LABEL_WIDTH + step * len(columns) + GAP, HEADER + step * len(corruptions)), "white")
    draw, font = ImageDraw.Draw(canvas), ImageFont.load_default(FONT_SIZE)
    for column, title in enumerate(columns):
        draw.text((LABEL_WIDTH + step * column, GAP), title, "black", font)
    for row, name in enumerate(track(corruptions, "corrupting", show=progress)):
        top = HEADER + step * row
        draw.text((GAP, top + step // 2 - FONT_SIZE), name.replace("_", " "), "black", font)
        for column, cell in enumerate(_cells(clean, name, suite, seed)):
            canvas.paste(
                cell.resize((step - GAP, step - GAP), Image.Resampling.NEAREST), (LABEL_WIDTH + step * column, top)
            )
    return canvas


def _prepare(image: Image.Image, suite: str, side: int) -> Image.Image:
    """The image at the suite's size; grey for MNIST-C."""
    grey = suite == "mnist-c"
    return centre(image.convert("L" if grey else "RGB"), side, SHORT_SIDE if side == SIDE else side)


def _cells(clean: Image.Image, name: str, suite: str, seed: int) -> Iterator[Image.Image]:
    yield clean
    batch = to_pixels(clean)[None]
    for severity in layout_of(suite).severities:
        corrupted = corrupt(batch, name, severity=severity, suite=suite, seed=seed, frost=frost_folder())[0]
        pixels = corrupted.permute(1, 2, 0).numpy()
        yield Image.fromarray(pixels.squeeze(-1) if pixels.shape[-1] == 1 else pixels)
