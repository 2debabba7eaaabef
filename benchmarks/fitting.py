"""What measuring training statistics costs, as a ratio to the plain forward pass."""

import torch
from benchmarks.harness import Cases, Settings, medians
from benchmarks.networks import images, pure, resnet20
from torch import Tensor

import shiftmatch as sm

BATCHES = (256, 1000)


@torch.no_grad()
def run(settings: Settings) -> Cases:
    """fit/plain of ResNet-20, for one batch at sites that are already known."""
    network, x = resnet20(), images(max(BATCHES), 3, 32)
    places = sm.sites(network, x[:2])
    cases: Cases = {}
    for size in BATCHES:
        batch = x[:size]

        def fit(batch: Tensor = batch) -> object:
            return sm.fit(network, [batch], sites=places, progress=False)

        runs = {"plain": lambda batch=batch: network(batch), "fit": fit, "pure": pure(fit)}
        seconds = medians(runs, settings.runs)
        cases[f"ResNet-20, 32 × 32, batch {size}"] = {
            "fit/plain": seconds["fit"] / seconds["plain"],
            "the same without the kernel": seconds["pure"] / seconds["plain"],
        }
    return cases
