"""The corruptions of CIFAR-10-C, ImageNet-C and MNIST-C: batched, seeded, for images of any size."""

from shiftmatch.corruptions.frost import frost_source
from shiftmatch.corruptions.registry import PAPER, SUITES, corrupt, names

__all__ = ["PAPER", "SUITES", "corrupt", "frost_source", "names"]
