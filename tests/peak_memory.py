"""The memory that a program takes, measured inside its networks, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")

SOURCE = Path(__file__).parents[1] / "src"
PROBE = f"""
import sys
sys.path.insert(0, {str(SOURCE)!r})
import torch
from pathlib import Path
from torch import nn

torch.set_num_threads(1)

def used():  # memory of this process's own, without the pages of files that the system may drop at any time
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["RssAnon"].split()[0])

class Probe(nn.ReLU):
    peak = 0
    def forward(self, x):
        Probe.peak = max(Probe.peak, used())
        return super().forward(x)
"""


def printed_memory(program: str, *arguments: object) -> int:
    """The kB that a program prints; it may use `used()` and `Probe`, a ReLU that notes the peak so far."""
    # By default the C library keeps freed memory for later, which would be counted.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    command = [sys.executable, "-c", PROBE + program, *map(str, arguments)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)
