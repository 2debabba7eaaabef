"""What ships with the package: real digits, and LeNets for them with their statistics. See NOTICE for the digits.

The files were made by paper/recipes/mnist_lenet.py and recipes/embedded.py; the JSON files beside them say how.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from shiftmatch.data.images import Labelled
from shiftmatch.errors import InputError
from shiftmatch.matching.members import load_members
from shiftmatch.matching.statistics import Statistics
from shiftmatch.samplers.posterior import Posterior
from shiftmatch.shapes import Images, Pixels

__all__ = ["images", "pixels", "posterior", "preprocess", "statistics"]

FOLDER = Path(__file__).parent
IMAGES = FOLDER / "mnist.npz"
POSTERIORS = ("gaussian", "empcov", "ensemble")
COVARIANCES = ("Spectrum", "SpatialKronecker", "ChannelMoments")
SHIPPED = {"gaussian": COVARIANCES, "empcov": ("Spectrum",), "ensemble": ("Spectrum",)}
"""Which statistics there are of which draws: the demo compares structures for one posterior."""
MEAN, STD = 0.1307, 0.3081
"""Of all MNIST training pixels, divided by 255: what the networks were trained with."""


def images() -> Labelled:
    """The first 2,000 test images of MNIST.

    >>> images()
    Labelled(mnist test: 2,000 images, from the shiftmatch package)
    """
    with np.load(IMAGES, allow_pickle=False) as file:
        pixels, labels = torch.from_numpy(file["images"]), torch.from_numpy(file["labels"])
    return Labelled(pixels[:, None], labels.long(), "mnist test", "the shiftmatch package")


def preprocess(pixels: Tensor) -> Images:
    """Pixels (0 to 255) as the networks take them.

    Args:
        pixels: uint8, one channel.

    >>> preprocess(torch.full((1, 1, 1, 1), 255, dtype=torch.uint8)).item()
    2.82...
    """
    return (pixels / 255 - MEAN) / STD


def pixels(inputs: Images) -> Pixels:
    """Undo `preprocess`, as well as 8 bits can show it.

    Args:
        inputs: what `preprocess` returned, or a corrupted version of it.

    >>> torch.equal(pixels(preprocess(images().images[:9])), images().images[:9])
    True
    """
    return ((inputs * STD + MEAN) * 255).round().clamp(0, 255).to(torch.uint8)


def posterior(name: str = "gaussian") -> Posterior:
    """LeNets for MNIST: the draws of a posterior, or the members of an ensemble.

    Args:
        name: "gaussian" or "empcov", the prior of HMC draws; or "ensemble".

    >>> len(posterior("ensemble"))
    10
    """
    return Posterior.load(posterior_file(name))


def statistics(name: str = "gaussian", covariance: str = "Spectrum") -> Sequence[Statistics]:
    """The statistics of each draw on the images that it was trained on.

    Args:
        name: of the draws, as for `posterior`.
        covariance: "Spectrum", the default, "SpatialKronecker", the paper's, or "ChannelMoments", test-time batchnorm.

    >>> list(statistics("ensemble")[0])
    ['input', 'conv1', 'conv2', 'dense1', 'dense2']
    """
    return load_members(statistics_file(name, covariance))


def posterior_file(name: str) -> Path:
    """Where the draws of that name are."""
    if name not in POSTERIORS:
        raise InputError(f"The package has no posterior {name!r}; it has {', '.join(POSTERIORS)}.")
    return FOLDER / f"lenet_{name}.safetensors"


def statistics_file(name: str, covariance: str) -> Path:
    """Where the statistics of those draws are."""
    if covariance not in SHIPPED.get(name, COVARIANCES):
        known = ", ".join(SHIPPED.get(name, COVARIANCES))
        raise InputError(f"The package has no statistics of {name!r} with {covariance!r}; it has {known}.")
    return posterior_file(name).with_suffix(f".{covariance}.safetensors")
