"""One random stream per image, so that a result never depends on the batch an image came in."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from shiftmatch.corruptions.parameters import Number
from shiftmatch.shapes import Pixels

Draw = Callable[[np.random.Generator], Any]


@dataclass(frozen=True)
class Streams:
    """The random streams of a batch of images: every draw has one row per image.

    The stream of an image is keyed by a hash of its pixels and of `key`; neither its place in the batch nor its
    neighbours matter. Numbers are drawn on the CPU, so every device sees the same ones.

    >>> images = torch.arange(24, dtype=torch.uint8).reshape(2, 1, 3, 4)
    >>> both, second = Streams.of(images, "fog", 3), Streams.of(images[1:], "fog", 3)
    >>> torch.equal(both.normal(5)[1:], second.normal(5))
    True
    """

    generators: Sequence[np.random.Generator]
    device: torch.device

    @classmethod
    def of(cls, images: Pixels, *key: object) -> "Streams":
        secret = hashlib.blake2b(repr(key).encode()).digest()
        rows = images.cpu().contiguous().numpy()
        return cls([_generator(row.tobytes(), secret) for row in rows], images.device)

    def normal(self, *shape: int, loc: Number = 0.0, scale: Number = 1.0) -> Float[Tensor, "b *shape"]:
        return loc + scale * self._draw(lambda stream: stream.standard_normal(shape, dtype=np.float32))

    def uniform(self, low: Number, high: Number, *shape: int) -> Float[Tensor, "b *shape"]:
        return low + (high - low) * self._draw(lambda stream: stream.random(shape, dtype=np.float32))

    def integers(self, low: int, high: int, *shape: int) -> Int[Tensor, "b *shape"]:
        """Whole numbers from low to high − 1."""
        return self._draw(lambda stream: stream.integers(low, high, shape))

    def signs(self, *shape: int) -> Float[Tensor, "b *shape"]:
        """Either −1 or 1, with even odds."""
        return self.integers(0, 2, *shape) * 2.0 - 1.0

    def poisson(self, rates: Float[Tensor, "b *shape"]) -> Float[Tensor, "b *shape"]:
        rows = zip(self.generators, rates.cpu().numpy(), strict=True)
        counts = np.stack([stream.poisson(row) for stream, row in rows])
        return torch.from_numpy(counts).to(self.device, rates.dtype)

    def _draw(self, draw: Draw) -> Tensor:
        return torch.from_numpy(np.stack([draw(stream) for stream in self.generators])).to(self.device)


def _generator(content: bytes, secret: bytes) -> np.random.Generator:
    digest = hashlib.blake2b(content, digest_size=16, key=secret).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))
