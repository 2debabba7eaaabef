"""The first layers of a network for images of one channel, over blocks of 2 × 2 pixels.

Processors are slow at convolutions of one channel. With the four pixels of a block as channels, the same convolution
has four channels in and four times as many out, with a smaller window, and pooling 2 × 2 pixels is the mean of the four
outputs of a block: the same sums, twice as fast for the whole of a LeNet.
"""

from collections import OrderedDict

import torch
from torch import Tensor, nn
from torch.nn import functional

BLOCK = 2
PIXEL_BY_PIXEL = (nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Tanh, nn.Softplus)
"""Layers that do not mind where a pixel is."""

FEW_PIXELS = 256
"""Maps up to this size are pooled by a product."""


def in_blocks(model: nn.Module, images: Tensor) -> tuple[nn.Module, Tensor] | None:
    """The same network, with the same parameters, for images whose blocks are channels; and the images like that.

    None for networks that do not begin with a convolution of one channel, a nonlinearity and mean pooling.

    >>> net = nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2))
    >>> images = torch.randn(3, 1, 28, 28)
    >>> network, blocks = in_blocks(net, images)
    >>> blocks.shape, torch.allclose(network(blocks), net(images), atol=1e-5)
    (torch.Size([3, 4, 14, 14]), True)
    """
    even = images.ndim == len("bchw") and not any(size % BLOCK for size in images.shape[2:])
    if not even or type(model) is not nn.Sequential:
        return None
    layers = dict(zip(model._modules, model, strict=True))  # named_children leaves out a layer that comes twice
    match list(layers.items()):
        case [(first, nn.Conv2d() as conv), (second, between), (third, nn.AvgPool2d() as pool), *later]:
            if type(between) in PIXEL_BY_PIXEL and _keeps_size(conv) and _pools_blocks(pool):
                pools = {name: _PoolByProduct(layer) for name, layer in later if type(layer) is nn.AvgPool2d}
                changed = layers | pools | {first: _BlockConv(conv), second: _in_place(between), third: _BlockMean()}
                return nn.Sequential(OrderedDict(changed)), functional.pixel_unshuffle(images, BLOCK)
    return None


def _in_place(between: nn.Module) -> nn.Module:
    """A nonlinearity over the output of a convolution, whose gradient does not need it."""
    return nn.ReLU(inplace=True) if type(between) is nn.ReLU else between


def _keeps_size(conv: nn.Conv2d) -> bool:
    half = tuple(size // 2 for size in conv.kernel_size)
    centred = conv.padding == half and all(size % 2 for size in conv.kernel_size) and conv.padding_mode == "zeros"
    return type(conv) is nn.Conv2d and centred and (conv.in_channels, conv.stride, conv.dilation) == (1, (1, 1), (1, 1))


def _pools_blocks(pool: nn.AvgPool2d) -> bool:
    sizes = (BLOCK, (BLOCK, BLOCK))
    return pool.kernel_size in sizes and pool.stride in sizes and not pool.padding and pool.divisor_override is None


class _BlockConv(nn.Module):
    """A convolution of one channel, for blocks: every pixel of a block sees some pixels of the blocks around it."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.weight, self.bias = conv.weight, conv.bias
        rows, columns = self.weight.shape[2:]
        self._reach = (rows // 2 + 1) // BLOCK, (columns // 2 + 1) // BLOCK  # in blocks, to each side
        self._down, self._across = _taps(rows, self._reach[0]), _taps(columns, self._reach[1])

    def forward(self, x: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.repeat(BLOCK**2)
        return functional.conv2d(x, self._block_weight(), bias, padding=self._reach)

    def _block_weight(self) -> Tensor:
        """Entry (pixel, output; pixel of the image; block) is the weight at their distance, 0 beyond the window."""
        padded = functional.pad(self.weight[:, 0], (0, 1, 0, 1))  # what comes after the last is 0
        picked = padded[:, self._down[:, None, :, None, :, None], self._across[None, :, None, :, None, :]]
        return picked.movedim(0, 2).reshape(-1, BLOCK**2, 2 * self._reach[0] + 1, 2 * self._reach[1] + 1)


def _taps(size: int, reach: int) -> Tensor:
    """Which weight is between a pixel of a block and one of a block so many away; `size` where there is none."""

    def tap(here: int, there: int, away: int) -> int:
        index = BLOCK * away + there - here + size // 2
        return index if 0 <= index < size else size

    aways = range(-reach, reach + 1)
    both = range(BLOCK)
    return torch.tensor([[[tap(here, there, away) for away in aways] for there in both] for here in both])


class _BlockMean(nn.Module):
    """Mean pooling, where the pixels that are pooled are channels."""

    def forward(self, x: Tensor) -> Tensor:
        pooled: Tensor = x.unflatten(1, (BLOCK**2, -1)).mean(1)
        return pooled


class _PoolByProduct(nn.Module):
    """Pooling of small maps as a product with a matrix, which is faster, both ways."""

    def __init__(self, pool: nn.AvgPool2d) -> None:
        super().__init__()
        self._pool = pool

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        if height * width > FEW_PIXELS:
            return self._pool.forward(x)
        each_pixel = torch.eye(height * width, dtype=x.dtype, device=x.device).unflatten(1, (1, height, width))
        weights = self._pool.forward(each_pixel)
        return (x.flatten(2) @ weights.flatten(1)).view(*x.shape[:2], *weights.shape[2:])
