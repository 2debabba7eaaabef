"""What matching costs on 224 × 224 images."""

import torch
from benchmarks.harness import Cases, Settings
from benchmarks.matching import ratios
from benchmarks.networks import images, resnet50

BATCH = 64


@torch.no_grad()
def run(settings: Settings) -> Cases:
    """Matched/plain of ResNet-50."""
    return {f"ResNet-50, 224 × 224, batch {BATCH}": ratios(resnet50(), images(BATCH, 3, 224), settings)}
