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

CALLED_TWICE = """
import torch
from torch import nn
import shiftmatch as sm
class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.last = nn.Conv2d(3, 3, 3, padding=1), nn.Linear(3, 4)
    def forward(self, x):
        return self.last(self.conv(self.conv(x).relu()).relu().mean((2, 3)))
net, x = Twice().eval(), torch.randn(50, 3, 8, 8)
robust = sm.match(net, sm.fit(net, x, progress=False))
assert list(robust.statistics) == ["input", "conv", "conv#2"]
for network in (robust, sm.freeze(robust, x)):
    expected = network(2 * x)
    torch.testing.assert_close(torch.compile(network, backend="eager")(2 * x), expected, rtol=1e-5, atol=1e-5)
    exported = torch.export.export(network, (x,)).module()
    torch.testing.assert_close(exported(2 * x), expected, rtol=1e-5, atol=1e-5)
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
@pytest.mark.parametrize("script", [COMPILE, CALLED_TWICE, FAILED_EXPORT], ids=["compile", "twice", "failed export"])
def test_in_a_process_of_its_own(script: str) -> None:
    paths = [str(HERE), *sys.path]
    code = f"import sys; sys.path[:0] = {paths!r}\n{script}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
