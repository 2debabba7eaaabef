"""How much more memory a matched network needs: the peak of a process of its own for each."""

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
    """Peak resident memory of a forward pass, Python and PyTorch included."""
    peaks = {name: int(child(PEAK.format(batch=BATCH, run=name), settings)) / 2**10 for name in ("network", "robust")}
    figures = {"matched/plain": peaks["robust"] / peaks["network"], "plain, MiB": peaks["network"]}
    return {f"ResNet-20, 32 × 32, batch {BATCH}": figures}
