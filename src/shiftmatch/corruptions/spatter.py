"""Spatter: drops of water or splashes of mud on the lens."""

import numpy as np
import torch
from jaxtyping import Float
from scipy.ndimage import distance_transform_edt
from torch import Tensor

from shiftmatch.corruptions.colour import luminance
from shiftmatch.corruptions.edges import canny_integer
from shiftmatch.corruptions.filters import correlate, smooth
from shiftmatch.corruptions.levels import cut_levels
from shiftmatch.corruptions.parameters import Number
from shiftmatch.corruptions.randomness import Streams
from shiftmatch.shapes import Images

WATER = (175 / 255, 238 / 255, 238 / 255)
MUD = (63 / 255, 42 / 255, 20 / 255)
GREY_MUD = 63 / 255
MUD_FLOOR = 0.8
CANNY = (50.0, 150.0)
FARTHEST = 20.0
BOX = torch.full((3, 3), 1 / 9)
EMBOSS = torch.tensor([[-2.0, -1.0, 0.0], [-1.0, 1.0, 1.0], [0.0, 1.0, 2.0]])

Map = Float[Tensor, "b h w"]


def spatter(  # noqa: PLR0917 (the columns of the published table)
    x: Images, streams: Streams, loc: Number, scale: Number, sigma: Number, floor: Number, strength: Number, muddy: int
) -> Images:
    """Noise smoothed by sigma makes blots where it exceeds `floor`: of water, or of mud."""
    liquid = _liquid(x, streams, loc, scale, sigma)
    if muddy:
        return _splash(x, liquid > floor, strength, MUD)
    colour = x.new_tensor(WATER)[:, None, None] * _water(torch.where(liquid < floor, 0, liquid), strength)
    return x + (colour if x.shape[1] == 3 else luminance(colour))


def mud(  # noqa: PLR0917 (the columns of the published table)
    x: Images, streams: Streams, loc: Number, scale: Number, sigma: Number, floor: Number, strength: Number
) -> Images:
    """Spatter of mud on grey images, as in MNIST-C at every level."""
    return _splash(x, _liquid(x, streams, loc, scale, sigma) > floor, strength, (GREY_MUD,) * 3)


def _liquid(x: Images, streams: Streams, loc: Number, scale: Number, sigma: Number) -> Map:
    return smooth(streams.normal(*x.shape[-2:], loc=loc, scale=scale), sigma)


def _splash(x: Images, blots: Tensor, strength: Number, colour: tuple[float, ...]) -> Images:
    paint = x.new_tensor(colour)[None, :, None, None]
    cover = smooth(blots.to(x.dtype), strength)
    cover = torch.where(cover < MUD_FLOOR, 0, cover)[:, None]
    return x * (1 - cover) + cover * (paint if x.shape[1] == 3 else luminance(paint))


def _water(liquid: Map, strength: Number) -> Float[Tensor, "b 1 h w"]:
    """Light refracted by drops: their shape, embossed by the distance from their edges."""
    liquid = cut_levels(liquid) * 255
    far = _distance(canny_integer(liquid, *CANNY)).clamp_max(FARTHEST)
    relief = correlate(_equalise(correlate(far, BOX, "mirror").floor_()), EMBOSS, "mirror").clamp_(0, 255)
    light = liquid * correlate(relief, BOX, "mirror").round_()
    brightest = light.amax((1, 2), keepdim=True).clamp_min(torch.finfo(light.dtype).tiny)
    return (strength * light / brightest)[:, None]


def _distance(edges: Tensor) -> Map:
    """The distance of each pixel from the nearest edge, the largest possible where there is none."""
    maps = [
        distance_transform_edt(~edge) if edge.any() else np.full(edge.shape, FARTHEST) for edge in edges.cpu().numpy()
    ]
    return torch.from_numpy(np.stack(maps)).to(edges.device, torch.float32)


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
