"""How much more memory a matched network needs: the peaks of processes of their own, several for each."""

from pathlib import Path
from statistics import median

from benchmarks.harness import Cases, Settings, child

BATCH = 1000

PEAK = """
import torch
from benchmarks.memory import peak
from benchmarks.networks import images, matched, resnet20
network, x = resnet20(), images({batch}, 3, 32)
robust = matched(network, x[:100])
with torch.no_grad():
    ({run})(x)
print(peak())
"""


def peak() -> float:
    """Of this process, in MiB, on Linux; getrusage would begin with the memory of the process that has started it."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 2**10


def reset_peak() -> None:
    """Let the peak begin with the memory that this process has now."""
    Path("/proc/self/clear_refs").write_text("5")


def run(settings: Settings) -> Cases:
    """Peak resident memory of a forward pass, Python and PyTorch included; medians of processes that take turns."""
    peaks: dict[str, list[float]] = {"network": [], "robust": []}
    for _ in range(settings.runs):
        for name, found in peaks.items():
            found.append(float(child(PEAK.format(batch=BATCH, run=name), settings)))
    plain, matched = (median(found) for found in peaks.values())
    return {f"ResNet-20, 32 × 32, batch {BATCH}": {"matched/plain": matched / plain, "plain, MiB": plain}}
