"""What processing does to images: contrast, elastic transform, pixelate, JPEG, saturate."""

import io
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from shiftmatch.corruptions.noise import Generators
from shiftmatch.corruptions.ops import Grid, gaussian_filter, luminance, pixel_grid, sample
from shiftmatch.corruptions.severities import Number
from shiftmatch.shapes import Images

SUBPIXELS = 32
"""OpenCV's affine warp places pixels on a grid this many times finer than the image."""


def contrast(x: Images, factor: Number) -> Images:
    """(x − m)·factor + m, with m the mean of each channel."""
    # The grey levels are whole numbers, whose sum is exact in any order.
    levels = (x * 255).round().long()
    mean = levels.sum((-2, -1), keepdim=True).to(x.dtype) / (255 * x[0, 0].numel())
    return (x - mean) * factor + mean


def saturate(x: Images, factor: Number, amount: Number) -> Images:
    """Set the saturation (S of HSV) to factor·S + amount; grey pixels count as red, the hue of angle zero."""
    if x.shape[1] == 1:
        return luminance(saturate(x.expand(-1, 3, -1, -1), factor, amount))
    value, lowest = x.amax(1, keepdim=True), x.amin(1, keepdim=True)
    spread = value - lowest
    saturation = spread / value.clamp_min(torch.finfo(x.dtype).tiny)
    target = (factor * saturation + amount).clamp(0, 1)
    red = x.new_tensor([0.0, 1.0, 1.0])[:, None, None]
    # How far below the largest channel each channel lies, as a share of the spread.
    depth = torch.where(spread > 0, (value - x) / spread.clamp_min(torch.finfo(x.dtype).tiny), red)
    return value * (1 - target * depth)


def pixelate(x: Images, scale: Number) -> Images:
    """Shrink and enlarge again by averaging over boxes."""

    def shrink(image: Image.Image) -> Image.Image:
        small = (int(image.width * scale), int(image.height * scale))
        return image.resize(small, Image.Resampling.BOX).resize(image.size, Image.Resampling.BOX)

    return _with_pillow(shrink, x)


def jpeg_compression(x: Images, quality: int) -> Images:
    """Store as JPEG of the given quality and read back."""

    def compress(image: Image.Image) -> Image.Image:
        file = io.BytesIO()
        image.save(file, "JPEG", quality=quality)
        return Image.open(file)

    return _with_pillow(compress, x)


def _with_pillow(change: Callable[[Image.Image], Image.Image], x: Images) -> Images:
    """Change every image with Pillow, on the CPU."""
    pixels = (x * 255).round().to(torch.uint8).movedim(1, -1).cpu().contiguous().numpy()
    pixels = pixels[..., 0] if x.shape[1] == 1 else pixels
    changed = torch.from_numpy(np.stack([np.asarray(change(Image.fromarray(image))) for image in pixels]))
    channels_first = changed[:, None] if x.shape[1] == 1 else changed.movedim(-1, 1)
    return channels_first.to(x) / 255


def elastic_transform(x: Images, rng: Generators, strength: Number, sigma: Number, affine: Number) -> Images:
    """A small random affine map, then displacements strength·(uniform noise smoothed by sigma), all in pixels."""
    rows, cols = _affine_grid(x, rng.uniform(-affine, affine, 3, 2))
    bent = sample(x, rows, cols, "mirror")
    if strength == 0:
        return bent
    noise = rng.uniform(-1, 1, 2, *x.shape[-2:])
    down, right = (strength * gaussian_filter(noise, sigma, truncate=3.0, border="reflect")).unbind(1)
    row, col = pixel_grid(x)
    return sample(bent, row + down, col + right, "reflect")


def _affine_grid(x: Images, jitter: Float[Tensor, "b 3 2"]) -> tuple[Grid, Grid]:
    """Where each pixel comes from under the affine map that moves three points about the centre by `jitter`."""
    height, width = x.shape[-2:]
    max_shift = min(height, width) // 3
    centre = torch.tensor([width // 2, height // 2], dtype=torch.float64)
    points = centre + max_shift * torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]], dtype=torch.float64)
    moved = points + jitter.cpu().double()
    ones = torch.ones(len(moved), 3, 1, dtype=torch.float64)
    inverse = torch.linalg.solve(torch.cat([moved, ones], -1), points.expand_as(moved)).to(x)
    (row, col), along = pixel_grid(x), inverse[:, :, None, None, :]
    positions = along[:, 0] * col[..., None] + along[:, 1] * row[..., None] + along[:, 2]
    cols, rows = ((positions * SUBPIXELS).round() / SUBPIXELS).unbind(-1)
    return rows, cols
