"""The memory that a thousand images of 224 × 224 take: the peaks of processes of their own.

Networks are in channels_last: in the order of axes that is PyTorch's default, oneDNN copies the input and the output of
every convolution, which no site can help.
"""

from benchmarks.harness import Cases, Settings, child

BATCH, FEW = 1000, (20, 40)

PEAK = """
import torch
import benchmarks.networks as networks
from benchmarks.memory import peak, reset_peak
network = networks.{network}()
robust = networks.matched(network, networks.images(4, 3, 224))
for model in (network, robust):
    model.to(memory_format=torch.channels_last)
x = networks.images({batch}, 3, 224).to(memory_format=torch.channels_last)
reset_peak()
with torch.no_grad():
    {run}(x)
print(peak())
"""


def run(settings: Settings) -> Cases:
    """ResNet-50, matched and plain, and EfficientNet-Lite0 plain; Python, PyTorch, statistics and images included."""

    def gigabytes(network: str, batch: int, name: str) -> float:
        return float(child(PEAK.format(network=network, batch=batch, run=name), settings)) * 2**20 / 1e9

    found = {f"{case}, GB": gigabytes("resnet50", BATCH, name) for case, name in _RUNS.items()}
    fewer, few = (gigabytes("efficientnet_lite0", batch, "network") for batch in FEW)
    each = (few - fewer) / (FEW[1] - FEW[0])
    other = {f"plain, extrapolated from {FEW[0]} and {FEW[1]} images, GB": few + (BATCH - FEW[1]) * each}
    size = f"224 × 224, batch {BATCH}"
    return {f"ResNet-50, {size}": found, f"EfficientNet-Lite0, {size}": other}


_RUNS = {"matched": "robust", "plain": "network"}
