"""What matching costs on 224 × 224 images."""

import torch
from benchmarks.harness import Cases, Settings
from benchmarks.matching import ratios
from benchmarks.networks import efficientnet_lite0, images, resnet50

BATCH = 64


@torch.no_grad()
def run(settings: Settings) -> Cases:
    """Matched/plain of ResNet-50 and of the layout of EfficientNet-Lite0."""
    networks = {"ResNet-50": resnet50, "EfficientNet-Lite0": efficientnet_lite0}
    return {
        f"{name}, 224 × 224, batch {BATCH}": ratios(network(), images(BATCH, 3, 224), settings)
        for name, network in networks.items()
    }
