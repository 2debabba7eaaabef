"""One image file to pixels: every common format, upright, in 8 bits, in colour or grey; or a reason why not."""

import warnings
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from shiftmatch.errors import FileFormatError

SUFFIXES = (".jpeg", ".jpg", ".png", ".webp", ".tif", ".tiff", ".bmp", ".gif")
MAX_PIXELS = 89_478_485
"""Larger images are refused, as they may be made to fill the memory; Pillow warns from here on."""
WHITE = (255, 255, 255, 255)


def open_image(path: Path, *, grey: bool = False, upright: bool = True, notes: list[str] | None = None) -> Image.Image:
    """An image file in colour (or grey), in 8 bits, `upright` as its camera noted.

    16 bits are scaled to 8, transparency is laid over white, and of several frames the first is taken; the last two
    are added to `notes`.
    """
    notes = [] if notes is None else notes
    if path.is_file() and not path.stat().st_size:
        raise FileFormatError(f"{path} is empty (0 bytes). Copy it again, or take it out.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Pillow: what it can read, it reads
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as file:
                if getattr(file, "n_frames", 1) > 1:
                    notes.append("the first of several frames or pages was taken")
                image = ImageOps.exif_transpose(file) if upright else file
                return _flat(path, image, notes, kind=file.format or "").convert("L" if grey else "RGB")
    except FileFormatError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise FileFormatError(
            f"{path} has more than {MAX_PIXELS:,} pixels and may be made to fill the memory. Scale it down, or take it "
            f"out."
        ) from error
    except UnidentifiedImageError as error:
        raise FileFormatError(f"{path} is not an image of a known format. Take it out, or save it as PNG.") from error
    except Exception as error:  # Pillow's readers raise whatever they meet in a damaged file
        raise FileFormatError(f"{path} is damaged ({error}). Copy it again, or take it out.") from error


def _flat(path: Path, image: Image.Image, notes: list[str], *, kind: str) -> Image.Image:
    """In 8 bits and without transparency."""
    if image.mode.startswith("I;16") or (image.mode == "I" and kind == "PNG"):
        return Image.fromarray(np.round(np.asarray(image).astype(np.float64) / 257).clip(0, 255).astype(np.uint8))
    if image.mode in ("I", "F"):
        values = np.asarray(image)
        if image.mode == "I" or not ((values >= 0) & (values <= 1)).all():
            raise FileFormatError(
                f"{path} has numbers from {values.min()} to {values.max()}, and nothing says which is black and white. "
                f"Save it in 8 or 16 bits."
            )
        return Image.fromarray(np.round(values * 255).astype(np.uint8))
    if not image.has_transparency_data:
        return image
    clear = image.convert("RGBA")
    if clear.getextrema()[-1] == (255, 255):
        return clear.convert("RGB")
    notes.append("transparency was laid over white")
    return Image.alpha_composite(Image.new("RGBA", clear.size, WHITE), clear).convert("RGB")


def centre(image: Image.Image, side: int, short_side: int) -> Image.Image:
    """The published preprocessing of ImageNet-C: resize the shorter side (bilinear), then crop the centre.

    >>> centre(Image.new("RGB", (640, 480)), 224, 256).size
    (224, 224)
    """
    if image.size == (side, side):
        return image
    scale = short_side / min(image.size)
    width, height = (max(side, round(scale * length)) for length in image.size)
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = (width - side) // 2, (height - side) // 2
    return resized.crop((left, top, left + side, top + side))


def to_pixels(image: Image.Image) -> UInt8[Tensor, "c h w"]:
    """The pixels of a colour or grey image.

    >>> to_pixels(Image.new("L", (3, 2))).shape
    torch.Size([1, 2, 3])
    """
    return torch.from_numpy(np.atleast_3d(np.array(image))).permute(2, 0, 1)
