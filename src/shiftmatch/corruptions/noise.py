"""Random numbers, one generator per image; and the noise drawn from them: Gaussian, shot, impulse, speckle."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from shiftmatch.corruptions.severities import Number
from shiftmatch.shapes import Images, Pixels

Draw = Callable[[np.random.Generator], Any]


@dataclass(frozen=True)
class Generators:
    """The random generators of a batch of images: every draw has one row per image.

    The generator of an image is seeded by a hash of its pixels and of `key`; neither its place in the batch nor its
    neighbours matter. Numbers are drawn on the CPU, so every device sees the same ones.

    >>> images = torch.arange(24, dtype=torch.uint8).reshape(2, 1, 3, 4)
    >>> both, second = Generators.of(images, "fog", 3), Generators.of(images[1:], "fog", 3)
    >>> torch.equal(both.normal(5)[1:], second.normal(5))
    True
    """

    generators: Sequence[np.random.Generator]
    device: torch.device

    @classmethod
    def of(cls, images: Pixels, *key: object) -> "Generators":
        """One generator per image, from the image's pixels and the key."""
        secret = hashlib.blake2b(repr(key).encode()).digest()
        rows = images.cpu().contiguous().numpy()
        return cls([_generator(row.tobytes(), secret) for row in rows], images.device)

    def normal(self, *shape: int, loc: Number = 0.0, scale: Number = 1.0) -> Float[Tensor, "b *shape"]:
        """Normal numbers with mean loc and standard deviation scale."""
        return loc + scale * self._draw(lambda generator: generator.standard_normal(shape, dtype=np.float32))

    def uniform(self, low: Number, high: Number, *shape: int) -> Float[Tensor, "b *shape"]:
        """Uniform numbers from low to high."""
        return low + (high - low) * self._draw(lambda generator: generator.random(shape, dtype=np.float32))

    def integers(self, low: int, high: int, *shape: int) -> Int[Tensor, "b *shape"]:
        """Whole numbers from low to high − 1."""
        return self._draw(lambda generator: generator.integers(low, high, shape))

    def signs(self, *shape: int) -> Float[Tensor, "b *shape"]:
        """Either −1 or 1, with even odds."""
        return self.integers(0, 2, *shape) * 2.0 - 1.0

    def poisson(self, rates: Float[Tensor, "b *shape"]) -> Float[Tensor, "b *shape"]:
        """Poisson counts, each with its own rate."""
        rows = zip(self.generators, rates.cpu().numpy(), strict=True)
        counts = np.stack([generator.poisson(row) for generator, row in rows])
        return torch.from_numpy(counts).to(self.device, rates.dtype)

    def _draw(self, draw: Draw) -> Tensor:
        return torch.from_numpy(np.stack([draw(generator) for generator in self.generators])).to(self.device)


def _generator(content: bytes, secret: bytes) -> np.random.Generator:
    digest = hashlib.blake2b(content, digest_size=16, key=secret).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


def gaussian_noise(x: Images, rng: Generators, sigma: Number) -> Images:
    """X + σ·ξ with ξ ~ N(0, 1)."""
    return x + rng.normal(*x.shape[1:], scale=sigma)


def shot_noise(x: Images, rng: Generators, rate: Number) -> Images:
    """Poisson(rate·x) / rate: the light of few photons."""
    return rng.poisson(rate * x) / rate


def impulse_noise(x: Images, rng: Generators, amount: Number) -> Images:
    """A share of the values, channel by channel, becomes black or white with even odds."""
    u = rng.uniform(0, 1, *x.shape[1:])
    return torch.where(u < amount, (u < amount / 2).to(x.dtype), x)


def speckle_noise(x: Images, rng: Generators, sigma: Number) -> Images:
    """x·(1 + σ·ξ) with ξ ~ N(0, 1)."""
    return x * (1 + rng.normal(*x.shape[1:], scale=sigma))
