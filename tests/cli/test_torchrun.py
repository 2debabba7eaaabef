"""Commands under torchrun give what they give alone."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from made_sets import write_cifar
from torch.testing import assert_close

import shiftmatch as sm

COMMANDS = """
import sys
sys.path[:0] = {paths!r}
from shiftmatch.cli import app
net = "nets_of_many.py:net"
ensemble = "--method ensemble --draws 3 --steps 4 --batch-size 20 --step-size 0.1".split()
chains = "--method sgld --chains 2 --draws 2 --burn-in 1 --steps 3 --batch-size 20".split()
suite = "--corruptions contrast --severities 1,5 --train-images 60 --methods plain,ShiftMatch".split()
for words in (
    ["fit", net, "photos.npz", "--out", "{out}/stats", "--batch-size", "15"],
    ["sample", net, "photos.npz", "--out", "{out}/ensemble", *ensemble],
    ["sample", net, "photos.npz", "--out", "{out}/chains", *chains],
    ["fit", net, "photos.npz", "--posterior", "{out}/ensemble", "--out", "{out}/members", "--batch-size", "15"],
    ["evaluate", net, "--out", "{out}/scores.csv", "--root", "data", *suite],
):
    assert not app(words, standalone_mode=False), words
"""
NETWORK = """
from torch import nn
def net():
    return nn.Sequential(nn.Conv2d(3, 4, 5, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(400, 10))
"""


@pytest.mark.slow
def test_fit_sample_and_evaluate_with_two_processes(tmp_path: Path) -> None:
    (tmp_path / "nets_of_many.py").write_text(NETWORK)
    pixels = np.random.default_rng(0).integers(0, 255, (64, 32, 32, 3), dtype=np.uint8)
    np.savez(tmp_path / "photos.npz", images=pixels, labels=np.arange(64) % 10)
    for name in ("test_batch", *(f"data_batch_{number}" for number in range(1, 6))):
        write_cifar(tmp_path / "data" / "cifar-10-batches-bin" / f"{name}.bin", 40)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    said = {}
    for out, start in {"one": [], "two": torchrun}.items():
        script = tmp_path / f"{out}.py"
        script.write_text(COMMANDS.format(paths=sys.path, out=out))
        command = [sys.executable, *start, str(script)]
        places = os.environ | {"OMP_NUM_THREADS": "1"}  # as torchrun has it
        done = subprocess.run(
            command, cwd=tmp_path, env=places, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        said[out] = done.stdout.replace(f"{out}/", "")
    assert said["one"].splitlines() == said["two"].splitlines()
    one, two = (sm.Statistics.load(tmp_path / out / "stats") for out in ("one", "two"))
    assert (one.images, two.images) == (64, 64)
    assert_close(two.tensors(torch.float64), one.tensors(torch.float64), rtol=1e-6, atol=1e-6)
    for name in ("ensemble", "chains"):
        draws = [sm.Posterior.load(tmp_path / out / name).params for out in ("one", "two")]
        assert_close(draws[1], draws[0], rtol=0, atol=0)
    for a, b in zip(*(sm.load_members(tmp_path / out / "members") for out in ("one", "two")), strict=True):
        assert_close(b.tensors(torch.float64), a.tensors(torch.float64), rtol=1e-5, atol=1e-5)
    tables = [(tmp_path / out / "scores.csv").read_text() for out in ("one", "two")]
    assert tables[0] == tables[1]
