"""Weather: brightness, snow, fog, and spatter of water or mud on the lens."""

import torch
from jaxtyping import Float
from torch import Tensor

from shiftmatch.corruptions.blur import directional_blur, zoom_centre
from shiftmatch.corruptions.noise import Generators
from shiftmatch.corruptions.ops import (
    Map,
    Mask,
    correlate,
    gaussian_filter,
    hysteresis,
    luminance,
    neighbour,
    sobel,
    truncate_levels,
)
from shiftmatch.corruptions.severities import Number
from shiftmatch.shapes import Images

WATER = (175 / 255, 238 / 255, 238 / 255)
MUD = (63 / 255, 42 / 255, 20 / 255)
GREY_MUD = 63 / 255
MUD_FLOOR = 0.8
CANNY = (50.0, 150.0)
MAX_DISTANCE = 20
BOX = torch.full((3, 3), 1 / 9)
EMBOSS = torch.tensor([[-2.0, -1.0, 0.0], [-1.0, 1.0, 1.0], [0.0, 1.0, 2.0]])
TAN_22_5 = 2**0.5 - 1
"""Gradients flatter than 22.5 degrees count as horizontal, steeper than 67.5 as vertical."""


def brightness(x: Images, amount: Number) -> Images:
    """Raise V of HSV, hue and saturation kept: scale the pixel so that its largest channel becomes V + amount."""
    value = x.amax(1, keepdim=True)
    target = (value + amount).clamp(0, 1)
    return torch.where(value > 0, x * (target / value.clamp_min(torch.finfo(x.dtype).tiny)), target)


def snow(  # noqa: PLR0917 (the columns of the published table)
    x: Images,
    rng: Generators,
    loc: Number,
    scale: Number,
    zoom: Number,
    floor: Number,
    radius: Number,
    sigma: Number,
    keep: Number,
) -> Images:
    """Whiten the image, then add streaks of bright noise and the same streaks turned by 180 degrees."""
    flakes = rng.normal(*x.shape[-2:], loc=loc, scale=scale)
    flakes = zoom_centre(flakes.movedim(0, -1), zoom).movedim(-1, 0)
    flakes = truncate_levels(torch.where(flakes < floor, 0, flakes))
    layer = directional_blur(flakes, rng.uniform(-135, -45), radius, sigma)[:, None]
    white = torch.maximum(x, 1.5 * luminance(x) + 0.5)
    return keep * x + (1 - keep) * white + layer + layer.flip(-2, -1)


def fog(x: Images, rng: Generators, strength: Number, decay: Number, *, side: int) -> Images:
    """Add a cloud and scale back: (x + s·plasma)·m / (m + s), with m the largest value of the image.

    `side` is the least side of the cloud's map; larger images take the next power of two.
    """
    height, width = x.shape[-2:]
    side = max(side, 1 << (max(height, width) - 1).bit_length())
    cloud = plasma(rng.uniform(-1, 1, side, side), decay)[:, None, :height, :width]
    largest = x.amax((1, 2, 3), keepdim=True)
    return (x + strength * cloud) * (largest / (largest + strength))


def plasma(noise: Float[Tensor, "b m m"], decay: Number) -> Float[Tensor, "b m m"]:
    """A plasma fractal on a torus, from 0 to 1: midpoints are means of four neighbours plus noise that decays.

    >>> plasma(torch.rand(1, 4, 4) * 2 - 1, 2.0).max().item()
    1.0
    """
    heights, step, wobble = torch.zeros_like(noise), noise.shape[-1], 100.0
    while step >= 2:
        even, odd = slice(0, None, step), slice(step // 2, None, step)
        corners, centres = heights[:, even, even], heights[:, odd, odd]
        squares = corners + corners.roll(-1, 1)
        centres.copy_((squares + squares.roll(-1, 2)) / 4 + wobble**2 * noise[:, odd, odd])
        for axis, rows, cols in ((1, even, odd), (2, odd, even)):
            around = centres + centres.roll(1, axis) + corners + corners.roll(-1, 3 - axis)
            heights[:, rows, cols] = around / 4 + wobble**2 * noise[:, rows, cols]
        step, wobble = step // 2, wobble / decay
    low, high = heights.amin((1, 2), keepdim=True), heights.amax((1, 2), keepdim=True)
    return (heights - low) / (high - low)


def spatter(  # noqa: PLR0917 (the columns of the published table)
    x: Images, rng: Generators, loc: Number, scale: Number, sigma: Number, floor: Number, strength: Number, muddy: int
) -> Images:
    """Noise smoothed by sigma makes blots where it exceeds `floor`: of water, or of mud."""
    liquid = _liquid(x, rng, loc, scale, sigma)
    if muddy:
        return _splash(x, liquid > floor, strength, MUD)
    colour = x.new_tensor(WATER)[:, None, None] * _water(torch.where(liquid < floor, 0, liquid), strength)
    return x + (colour if x.shape[1] == 3 else luminance(colour))


def mud(  # noqa: PLR0917 (the columns of the published table)
    x: Images, rng: Generators, loc: Number, scale: Number, sigma: Number, floor: Number, strength: Number
) -> Images:
    """Spatter of mud on grey images, as in MNIST-C at every level."""
    return _splash(x, _liquid(x, rng, loc, scale, sigma) > floor, strength, (GREY_MUD,) * 3)


def _liquid(x: Images, rng: Generators, loc: Number, scale: Number, sigma: Number) -> Map:
    return gaussian_filter(rng.normal(*x.shape[-2:], loc=loc, scale=scale), sigma)


def _splash(x: Images, blots: Tensor, strength: Number, colour: tuple[float, ...]) -> Images:
    paint = x.new_tensor(colour)[None, :, None, None]
    cover = gaussian_filter(blots.to(x.dtype), strength)
    cover = torch.where(cover < MUD_FLOOR, 0, cover)[:, None]
    return x * (1 - cover) + cover * (paint if x.shape[1] == 3 else luminance(paint))


def _water(liquid: Map, strength: Number) -> Float[Tensor, "b 1 h w"]:
    """Light refracted by drops: their shape, embossed by the distance from their edges."""
    liquid = truncate_levels(liquid) * 255
    far = _distance(_canny(liquid, *CANNY))
    relief = correlate(_equalise(correlate(far, BOX, "mirror").floor_()), EMBOSS, "mirror").clamp_(0, 255)
    light = liquid * correlate(relief, BOX, "mirror").round_()
    brightest = light.amax((1, 2), keepdim=True).clamp_min(torch.finfo(light.dtype).tiny)
    return (strength * light / brightest)[:, None]


def _distance(edges: Mask) -> Map:
    """The distance of each pixel from the nearest edge, at most MAX_DISTANCE; squares first, column by column.

    >>> _distance(torch.tensor([[[True, False, False]]])).tolist()
    [[[0.0, 1.0, 2.0]]]
    """
    square = torch.where(edges, 0.0, MAX_DISTANCE**2)
    for dim, frame in ((-2, (0, 0, MAX_DISTANCE, MAX_DISTANCE)), (-1, (MAX_DISTANCE, MAX_DISTANCE))):
        framed, size = torch.nn.functional.pad(square, frame, value=MAX_DISTANCE**2), square.shape[dim]
        for step in range(-MAX_DISTANCE, MAX_DISTANCE + 1):
            square = torch.minimum(square, framed.narrow(dim, step + MAX_DISTANCE, size) + step**2)
    return square.double().sqrt().float()  # the root of a float is not the same on every processor


def _equalise(x: Map) -> Map:
    """Replace each grey level by the share of pixels up to it, the darkest at 0, as a level from 0 to 255."""
    levels = x.long().flatten(1)
    counts = torch.zeros(len(x), 256, dtype=torch.long, device=x.device).scatter_add_(
        1, levels, torch.ones_like(levels)
    )
    darkest = counts.gather(1, levels.amin(1, keepdim=True))
    rest = (levels.shape[1] - darkest).clamp_min(1)
    table = ((counts.cumsum(1) - darkest).to(x.dtype) * 255 / rest).round()
    return table.gather(1, levels).reshape(x.shape)


def _canny(x: Map, low: Number, high: Number) -> Mask:
    """Edges as OpenCV finds them in 0 … 255: not smoothed, gradient size |gx| + |gy|, thinned in eight directions."""
    down, right = sobel(x, "edge")
    size = down.abs() + right.abs()
    row = torch.where(down.abs() > TAN_22_5 * right.abs(), down.sign(), 0)
    col = torch.where(right.abs() > TAN_22_5 * down.abs(), right.sign(), 0)
    thin = (size > neighbour(size, -row, -col)) & (size >= neighbour(size, row, col))
    return hysteresis(thin & (size > high), thin & (size > low))
