"""Blur images, then undo the blur by matching their statistics to those of sharp images: Figure 2 of the paper.

    python examples/undo_blur.py [out/undo_blur.png]

A circular Gaussian blur is a stationary linear corruption. On images whose spectrum falls as 1/f, as natural ones do,
matching the covariance of rows and columns takes most of it away, knowing nothing of the blur. The statistics are of
other sharp images than those that are blurred.
"""

import sys
from pathlib import Path

import torch
from paper.blur import blurred, filtered, frequencies, relative_error
from torch import Tensor

import shiftmatch as sm

SIZE, IMAGES, BLUR = 32, 1000, 0.5


def natural_images(seed: int) -> Tensor:
    """Noise with the amplitude spectrum 1/f and no mean."""
    noise = torch.randn(IMAGES, 1, SIZE, SIZE, generator=torch.Generator().manual_seed(seed))
    frequency = frequencies(SIZE, SIZE)
    images = filtered(noise, torch.where(frequency > 0, 1 / frequency, 0.0))
    return images / images.std()


def undo_blur(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Sharp, blurred and matched images."""
    sharp, others = natural_images(seed), natural_images(seed + 1)
    network = torch.nn.Identity()  # matching the input alone shows what every layer of a network goes through
    robust = sm.match(network, sm.fit(network, others, covariance=sm.SpatialKronecker(), progress=False))
    blurry = blurred(sharp, BLUR)
    return sharp, blurry, robust(blurry)


def draw(path: Path, sharp: Tensor, blurry: Tensor, matched: Tensor) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(3, 4, figsize=(7.2, 6), layout="constrained")
    for row, name, images in zip(axes, ("sharp", "blurred", "matched"), (sharp, blurry, matched), strict=True):
        for axis, image in zip(row, images[:, 0].numpy(), strict=False):
            axis.imshow(image, cmap="gray", vmin=-2.5, vmax=2.5)
            axis.set(xticks=[], yticks=[])
        row[0].set_title(f"{name}: relative error {relative_error(images, sharp):.3f}", loc="left", fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "out/undo_blur.png")
    sharp, blurry, matched = undo_blur()
    print(f"relative error, blurred: {relative_error(blurry, sharp):.3f}")
    print(f"relative error, matched: {relative_error(matched, sharp):.3f}")
    draw(target, sharp, blurry, matched)
    print(f"picture: {target}")
