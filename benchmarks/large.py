"""What matching costs on 224 × 224 images, and the memory that a thousand of them take."""

import torch
from benchmarks.harness import Cases, Settings, child
from benchmarks.matching import ratios
from benchmarks.networks import images, resnet50

BATCH, MANY = 64, 1000

PEAK = """
import torch
from benchmarks.memory import peak
from benchmarks.networks import efficientnet_lite0, images, matched
network, x = efficientnet_lite0(), images({many}, 3, 224)
robust = matched(network, x[:20])
with torch.no_grad():
    {run}(x)
print(peak())
"""


@torch.no_grad()
def run(settings: Settings) -> Cases:
    """Matched/plain of ResNet-50; peak memory of EfficientNet-Lite0, Python, PyTorch and the images included."""
    cases = {f"ResNet-50, 224 × 224, batch {BATCH}": ratios(resnet50(), images(BATCH, 3, 224), settings)}
    peaks = {name: float(child(PEAK.format(many=MANY, run=name), settings)) for name in ("network", "robust")}
    found = {"plain, GB": peaks["network"] * 2**20 / 1e9, "matched, GB": peaks["robust"] * 2**20 / 1e9}
    return cases | {f"EfficientNet-Lite0, 224 × 224, batch {MANY}": found}
