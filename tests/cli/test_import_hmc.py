import pickle
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from shiftmatch.cli import app
from shiftmatch.samplers.posterior import Posterior


def checkpoint(path: Path, *, accepted: bool) -> Path:
    layers = {"linear": (784, 256), "linear_1": (256, 256), "linear_2": (256, 10)}
    params = {
        name: {"w": np.zeros(shape, np.float32), "b": np.ones(shape[1], np.float32)} for name, shape in layers.items()
    }
    path.write_bytes(pickle.dumps({"params": params, "accepted": accepted}, protocol=4))
    return path


def test_accepted_samples_become_a_posterior(tmp_path: Path) -> None:
    files = [checkpoint(tmp_path / f"model_step_{step}.pt", accepted=step != 12) for step in (11, 12, 13)]
    out = tmp_path / "mlp.safetensors"
    result = CliRunner().invoke(app, ["import-hmc", *map(str, files), "--network", "mlp", "--out", str(out), "--half"])
    assert result.exit_code == 0, result.output
    assert "2 draws in 1 chain" in result.output
    posterior = Posterior.load(out)
    assert posterior.architecture is not None
    assert posterior.architecture.name == "mlp"
    assert posterior[1]["dense3.bias"].tolist() == [1.0] * 10
