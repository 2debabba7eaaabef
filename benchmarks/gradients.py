"""Full-batch gradients, which are all that HMC computes, against a plain PyTorch loop."""

import torch
from benchmarks.harness import Cases, Settings, medians
from benchmarks.networks import images
from torch import Tensor, nn
from torch.nn import functional

import shiftmatch as sm
from shiftmatch.samplers.posterior import params_of

IMAGES, PIECE, PRECISION = 2000, 500, 100.0

REPEATED = 15
"""Runs are short, so there are more of them."""


def run(settings: Settings) -> Cases:
    """Gradients per second of the log posterior of LeNet, and how many times more than the loop gives."""
    network, x = sm.models.build("lenet"), images(IMAGES, 1, 28)
    labels = torch.randint(10, (IMAGES,), generator=torch.Generator().manual_seed(0))
    density = sm.samplers.log_posterior(network, (x, labels), prior_scale=PRECISION**-0.5)
    params, generator = params_of(network), torch.Generator()
    seconds = medians(
        {
            "loop": lambda: plain_loop(network, x, labels),
            "shiftmatch": lambda: density.value_and_grad(params, generator),
        },
        REPEATED * settings.runs,
    )
    figures = {
        "gradients/plain loop": seconds["loop"] / seconds["shiftmatch"],
        "gradients per s": 1 / seconds["shiftmatch"],
    }
    return {f"LeNet, {IMAGES} images": figures}


def plain_loop(network: nn.Module, x: Tensor, labels: Tensor) -> None:
    """What one would write without thinking of speed."""
    network.zero_grad()
    for inputs, targets in zip(x.split(PIECE), labels.split(PIECE), strict=True):
        functional.cross_entropy(network(inputs), targets, reduction="sum").backward()
    (PRECISION / 2 * sum(p.square().sum() for p in network.parameters())).backward()
