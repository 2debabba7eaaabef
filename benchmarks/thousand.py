"""The memory that a thousand images of 224 × 224 take: the peaks of processes of their own.

Networks are in channels_last: in the order of axes that is PyTorch's default, oneDNN copies the input and the output of
every convolution, which no site can help.
"""

from benchmarks.harness import Cases, Settings, child

BATCH = 1000

PEAK = """
import torch
import benchmarks.networks as networks
from benchmarks.memory import peak, reset_peak
network = networks.resnet50()
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
    """ResNet-50, matched and plain; Python, PyTorch, statistics and images included."""

    def gigabytes(name: str) -> float:
        return float(child(PEAK.format(batch=BATCH, run=name), settings)) * 2**20 / 1e9

    runs = {"matched": "robust", "plain": "network"}
    return {f"ResNet-50, 224 × 224, batch {BATCH}": {f"{case}, GB": gigabytes(name) for case, name in runs.items()}}
