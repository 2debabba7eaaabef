"""torch.compile and torch.export on the matched network itself, in a process without run-time type checks."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]

COMPILE = """
import torch, torch._dynamo.testing
from made_matched import corrupted, matched
robust, counter = matched(), torch._dynamo.testing.CompileCounter()
fast = torch.compile(robust, fullgraph=True, backend=counter)
with torch.no_grad():
    for size in (40, 16, 24, 8, 33):  # compiled before the first eager call
        x = corrupted(size)
        torch.testing.assert_close(fast(x), robust(x), rtol=1e-6, atol=1e-6)
assert counter.frame_count <= 3, counter.frame_count
"""

FAILED_EXPORT = """
from contextlib import suppress
import torch
from torch import nn
import shiftmatch as sm
class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.act = nn.Conv2d(3, 4, 3), nn.ReLU()
    def forward(self, x):
        x = self.act(self.conv(x)).mean((2, 3))
        return x if x.sum() > 0 else -x
net, x = Branches().eval(), torch.randn(50, 3, 8, 8)
robust, same = (sm.match(net, sm.fit(net, x, progress=False)) for _ in range(2))
try:
    torch.export.export(robust, (x,), dynamic_shapes=(({0: torch.export.Dim.DYNAMIC},),))
except Exception:
    pass
else:
    raise SystemExit("it was exported")
for convert in (lambda: torch.jit.trace(robust, x), lambda: torch.jit.script(robust)):
    with suppress(Exception):
        convert()
assert torch.equal(robust(x), same(x))
"""


@pytest.mark.slow
@pytest.mark.parametrize("script", [COMPILE, FAILED_EXPORT], ids=["compile", "failed export"])
def test_in_a_process_of_its_own(script: str) -> None:
    paths = [str(HERE), *sys.path]
    code = f"import sys; sys.path[:0] = {paths!r}\n{script}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
