"""Noise added to every pixel: Gaussian, shot, impulse, speckle."""

import torch

from shiftmatch.corruptions.parameters import Number
from shiftmatch.corruptions.randomness import Streams
from shiftmatch.shapes import Images


def gaussian_noise(x: Images, streams: Streams, sigma: Number) -> Images:
    """X + σ·ξ with ξ ~ N(0, 1)."""
    return x + streams.normal(*x.shape[1:], scale=sigma)


def shot_noise(x: Images, streams: Streams, rate: Number) -> Images:
    """Poisson(rate·x) / rate: the light of few photons."""
    return streams.poisson(rate * x) / rate


def impulse_noise(x: Images, streams: Streams, amount: Number) -> Images:
    """A share of the values, channel by channel, becomes black or white with even odds."""
    u = streams.uniform(0, 1, *x.shape[1:])
    return torch.where(u < amount, (u < amount / 2).to(x.dtype), x)


def speckle_noise(x: Images, streams: Streams, sigma: Number) -> Images:
    """x·(1 + σ·ξ) with ξ ~ N(0, 1)."""
    return x * (1 + streams.normal(*x.shape[1:], scale=sigma))
