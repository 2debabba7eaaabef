"""Write the images that ship with shiftmatch, and measure the statistics of the posteriors that ship with it.

    python paper/recipes/embedded.py

Run it after paper/recipes/mnist_lenet.py has written the posteriors to src/shiftmatch/demo/embedded/. MNIST is read
from the data folder (`shiftmatch data get mnist`). The same files give the same bytes.
"""

from dataclasses import replace

import numpy as np
import torch

from shiftmatch import data, embedded
from shiftmatch.core.covariance import covariance_named
from shiftmatch.core.spectrum import Spectrum
from shiftmatch.matching.match import fit
from shiftmatch.matching.members import save_members
from shiftmatch.matching.statistics import Statistics
from shiftmatch.utils.files import atomic_path

TEST = 2000
TRAIN = 5000
"""The images that paper/recipes/mnist_lenet.py trains on."""

LIMIT = 12_000_000
"""Bytes that may ship."""


def write_images() -> None:
    test = data.load("mnist", "test", limit=TEST)
    pixels = test.images[torch.arange(TEST)][:, 0]
    with atomic_path(embedded.IMAGES) as path, path.open("wb") as file:
        np.savez_compressed(file, images=pixels.numpy(), labels=test.labels.numpy().astype(np.uint8))


def write_statistics() -> None:
    train = embedded.preprocess(data.load("mnist", "train").images[torch.arange(TRAIN)])
    for name in embedded.POSTERIORS:
        for covariance in embedded.SHIPPED[name]:
            path = embedded.statistics_file(name, covariance)
            note = f"pixels / 255, mean {embedded.MEAN}, std {embedded.STD}"
            members = embedded.posterior(name).models()
            structure = covariance_named(covariance)
            fitted = (fit(member, train, covariance=structure, note=note, progress=False) for member in members)
            save_members(map(_needed, fitted), path, count=len(members))


def _needed(found: Statistics) -> Statistics:
    """Without moments by class where nothing asks for them: only spectra are matched with strength="auto"."""
    if all(isinstance(entry.covariance, Spectrum) for entry in found.values()):
        return found
    return replace(found, sites={name: replace(entry, classes=()) for name, entry in found.items()})


if __name__ == "__main__":
    write_images()
    write_statistics()
    size = sum(file.stat().st_size for file in embedded.FOLDER.iterdir() if file.is_file())
    print(f"{size:,} bytes in {embedded.FOLDER}")
    if size > LIMIT:
        raise SystemExit(f"That is more than the {LIMIT:,} bytes that may ship.")
