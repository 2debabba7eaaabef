"""What matching costs, as a ratio to the plain forward pass of the same batch in one piece."""

import torch
from benchmarks.harness import Cases, Settings, medians
from benchmarks.networks import images, matched, resnet20, resnet50
from torch import Tensor, nn

BATCHES = (64, 256, 1000, 2000)
LARGE_BATCH = 100


@torch.no_grad()
def run(settings: Settings) -> Cases:
    """Matched/plain of ResNet-20 at several batch sizes, and of a network on 224×224 images."""
    small, x = resnet20(), images(max(BATCHES), 3, 32)
    cases = {f"ResNet-20, 32 × 32, batch {size}": _ratio(small, x[:size], settings) for size in BATCHES}
    cases[f"ResNet-50, 224 × 224, batch {LARGE_BATCH}"] = _ratio(resnet50(), images(LARGE_BATCH, 3, 224), settings)
    return cases


def _ratio(network: nn.Module, x: Tensor, settings: Settings) -> dict[str, float]:
    robust = matched(network, x)
    seconds = medians({"plain": lambda: network(x), "matched": lambda: robust(x)}, settings.runs)
    return {"matched/plain": seconds["matched"] / seconds["plain"], "plain, s": seconds["plain"]}
