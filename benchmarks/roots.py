"""Inverse square roots per second, by size and method, and all those of ResNet-50 as the authors place their sites."""

import torch
from benchmarks.harness import Cases, Settings, medians

from shiftmatch.core.linalg import RootMethod, sym_power

METHODS: tuple[RootMethod, ...] = ("eigh", "newton-schulz")
SIZES = {8: 256, 16: 256, 32: 128, 56: 64, 112: 16}
"""Side -> how many matrices are taken at once."""

RESNET50 = {112: 128, 56: 2560, 28: 6400, 14: 18944, 7: 17408}
"""Side -> how many: rows and columns of every channel after every BatchNorm of the main branch, 45,440 in all."""


def run(settings: Settings) -> Cases:
    """Roots per second of the clock; and the seconds that one batch through ResNet-50 spends on roots."""
    cases: Cases = {}
    for side, count in SIZES.items():
        matrix = covariances(count, side)
        seconds = medians({m: lambda m=m, x=matrix: sym_power(x, -0.5, method=m) for m in METHODS}, settings.runs)
        cases[f"side {side}"] = {f"{method}, per s": count / taken for method, taken in seconds.items()}
    placed = [covariances(count, side) for side, count in RESNET50.items()]
    taken = medians({"all": lambda: [sym_power(matrix, -0.5) for matrix in placed]}, settings.runs)
    cases[f"{sum(RESNET50.values()):,} of ResNet-50"] = {"s": taken["all"]}
    return cases


def covariances(count: int, side: int) -> torch.Tensor:
    """Of noise, with four times as many samples as sides."""
    generator = torch.Generator().manual_seed(0)
    samples = torch.randn(count, side, 4 * side, dtype=torch.float64, generator=generator)
    return samples @ samples.mT / (4 * side)
