"""How much more memory a matched network needs: the peaks of processes of their own, several for each."""

from statistics import median

from benchmarks.harness import Cases, Settings, child

BATCH = 1000

PEAK = """
import torch
import resource
from benchmarks.networks import images, matched, resnet20
network, x = resnet20(), images({batch}, 3, 32)
robust = matched(network, x[:100])
with torch.no_grad():
    ({run})(x)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def run(settings: Settings) -> Cases:
    """Peak resident memory of a forward pass, Python and PyTorch included; medians of processes that take turns."""
    peaks: dict[str, list[float]] = {"network": [], "robust": []}
    for _ in range(settings.runs):
        for name, found in peaks.items():
            found.append(int(child(PEAK.format(batch=BATCH, run=name), settings)) / 2**10)
    plain, matched = (median(found) for found in peaks.values())
    return {f"ResNet-20, 32 × 32, batch {BATCH}": {"matched/plain": matched / plain, "plain, MiB": plain}}
