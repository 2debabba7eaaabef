"""The commands for users' own networks and images, one after the other as a user would call them."""

import csv
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from typer.testing import CliRunner

import shiftmatch as sm
from shiftmatch.cli import app
from shiftmatch.cli.loading import open_network
from shiftmatch.deploy.export import exported_metadata
from shiftmatch.samplers.posterior import Posterior

NETWORK = """
from torch import nn
def net():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 2))
"""
LOG = """
class Log(nn.Module):
    def forward(self, x):
        return (x - 1e6).log()
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a network, its weights, and bright and dark pictures in class folders and in an array."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets_of_mine.py").write_text(NETWORK)
    pixels = np.random.default_rng(0).integers(0, 100, (240, 8, 8), dtype=np.uint8)
    pixels[120:] += 100
    for number, image in enumerate(pixels):
        kind = tmp_path / "photos" / ("dark" if number < 120 else "light")
        kind.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(kind / f"{number:03d}.png")
    np.savez(tmp_path / "photos.npz", images=pixels, labels=np.arange(240) // 120)
    return tmp_path


def run(*words: str) -> Any:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_sample_fit_and_predict_with_a_posterior(here: Path) -> None:
    prepare = ["--mean", "0.4", "--std", "0.2"]
    settings = ["--method", "sghmc", "--draws", "3", "--burn-in", "2", "--steps", "20", "--step-size", "0.1"]
    run("sample", "nets_of_mine:net", "photos.npz", "--out", "p", "--weight-decay", "1", *settings, *prepare)
    run("fit", "nets_of_mine:net", "photos.npz", "--posterior", "p", "--out", "stats", *prepare)
    matched = ["--posterior", "p", "--statistics", "stats", "--out", "labels.csv"]
    result = run("predict", "nets_of_mine:net", "photos.npz", *matched)
    assert "240 images" in result.stdout
    found = rows(here / "labels.csv")
    assert [row["image"] for row in found] == [str(number) for number in range(240)]
    assert np.mean([int(row["label"]) == number // 120 for number, row in enumerate(found)]) > 0.9
    assert all(0.5 <= float(row["probability"]) <= 1 and 0 <= float(row["entropy"]) <= 0.7 for row in found)


def test_fit_remembers_how_images_were_prepared(here: Path) -> None:
    grey = ["--grey", "--size", "8", "--mean", "0.4", "--std", "0.2"]
    save_file(open_network("nets_of_mine:net", seed=7).state_dict(), here / "net.safetensors")
    weights = ["--weights", "net.safetensors"]
    run("fit", "nets_of_mine:net", "photos", "--out", "stats", *weights, *grey)
    assert sm.Statistics.load(here / "stats").images == 240
    run("predict", "nets_of_mine:net", "photos", "--out", "matched.csv", "--statistics", "stats", *weights)
    run("predict", "nets_of_mine:net", "photos", "--out", "plain.csv", *weights, *grey)
    other = ["predict", "nets_of_mine:net", "photos", "--out", "o.csv", "--statistics", "stats", *weights, "--std", "1"]
    refused = CliRunner().invoke(app, other)
    assert (refused.exit_code, (here / "o.csv").exists()) == (1, False)
    assert "fitted on images prepared with std=0.2; these are prepared with std=1.0" in refused.stderr
    assert "warning: " in run(*other, "--allow-other-preprocessing").stderr
    matched, plain = rows(here / "matched.csv"), rows(here / "plain.csv")
    assert plain[0]["image"] == "dark/000.png"
    assert {row["label"] for row in plain} <= {"0", "1"}
    assert {row["label"] for row in matched} <= {"dark", "light"}
    gaps = [abs(float(a["probability"]) - float(b["probability"])) for a, b in zip(matched, plain, strict=True)]
    assert max(gaps) < 1e-3, "matching is the identity on the training images themselves, if prepared alike"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("command", ["fit", "predict", "sample"])
def test_a_wrong_number_of_channels_is_said_in_words(command: str) -> None:
    result = CliRunner().invoke(app, [command, "nets_of_mine:net", "photos", "--out", "file"])
    assert "does not take images of shape 3 × 8 × 8" in result.stderr
    assert not Path("file").exists()


@pytest.mark.usefixtures("here")
def test_sites_are_listed() -> None:
    assert "input" in run("sites", "nets_of_mine:net", "1x8x8").stdout
    assert len(run("sites", "nets_of_mine:net", "1x8x8", "--all").stdout.splitlines()) > 5
    first = json.loads(run("sites", "nets_of_mine:net", "1x8x8", "--json").stdout)[0]
    assert (first["name"], first["shape"]) == ("input", [1, 8, 8])


def test_classes_are_called_as_in_training_wherever_the_test_images_lie(here: Path) -> None:
    run("fit", "nets_of_mine:net", "photos", "--grey", "--out", "stats")
    (here / "photos" / "dark").rename(here / "photos" / "2024-01-01")
    run("predict", "nets_of_mine:net", "photos", "--statistics", "stats", "--out", "labels.csv")
    assert {row["label"] for row in rows(here / "labels.csv")} <= {"dark", "light"}
    (here / "photos" / "third").mkdir()
    (here / "photos" / "light" / "239.png").rename(here / "photos" / "third" / "1.png")
    run("fit", "nets_of_mine:net", "photos", "--grey", "--out", "three")
    result = run("predict", "nets_of_mine:net", "photos", "--statistics", "three", "--out", "labels.csv")
    assert "name 3 classes, the network has 2 outputs" in result.stderr.replace("\n", " ")
    assert {row["label"] for row in rows(here / "labels.csv")} <= {"0", "1"}


def test_nan_is_an_error_and_no_prediction(here: Path) -> None:
    network = open_network("nets_of_mine:net")
    network.get_parameter("3.bias").data[0] = float("nan")
    torch.save(network.state_dict(), here / "nan.pt")
    result = CliRunner().invoke(
        app, ["predict", "nets_of_mine:net", "photos", "--grey", "--weights", "nan.pt", "--out", "labels.csv"]
    )
    assert (result.exit_code, (here / "labels.csv").exists()) == (1, False)
    assert "3.bias in nan.pt hold NaN" in result.stderr
    (here / "nets_of_mine_too.py").write_text(f"{NETWORK}\ndef log():\n    return nn.Sequential(net(), Log())\n{LOG}")
    result = CliRunner().invoke(app, ["predict", "nets_of_mine_too.py:log", "photos", "--grey", "--out", "labels.csv"])
    assert (result.exit_code, (here / "labels.csv").exists()) == (1, False)
    assert "outputs are NaN or infinite, for" in result.stderr


def test_results_for_scripts(here: Path) -> None:
    fitted = json.loads(run("fit", "nets_of_mine:net", "photos", "--grey", "--out", "stats", "--json").stdout)
    assert fitted == {"out": "stats", "images": 240, "refused": {}, "classes": ["dark", "light"]}
    predicted = run("predict", "nets_of_mine:net", "photos.npz", "--out", str(here / "labels.csv"), "--json").stdout
    assert json.loads(predicted) == {"out": str(here / "labels.csv"), "images": 240, "refused": {}}


def test_diagnose_says_what_has_shifted(here: Path) -> None:
    run("fit", "nets_of_mine:net", "photos", "--grey", "--out", "net.stats", "--mean", "0.4", "--std", "0.2")
    found = json.loads(run("diagnose", "nets_of_mine:net", "photos", "--statistics", "net.stats", "--json").stdout)
    assert (found["shifted"], found["kind"], len(found["names"])) == (False, "none", 240)
    np.save(here / "dim.npy", np.load(here / "photos.npz")["images"] // 3)
    dim = run("diagnose", "nets_of_mine:net", "dim.npy", "--statistics", "net.stats", "--plot", "spectra.png")
    assert dim.stdout.startswith("Shifted, by ")
    assert (here / "spectra.png").stat().st_size > 1000
    (here / "photos" / "dark" / "000.png").write_bytes(b"no image")
    partly = CliRunner().invoke(app, ["diagnose", "nets_of_mine:net", "photos", "--statistics", "net.stats"])
    assert partly.exit_code == 3
    wrong = CliRunner().invoke(
        app, ["diagnose", "nets_of_mine:net", "photos", "--statistics", "net.stats", "--plot", "a.gif"]
    )
    assert (wrong.exit_code, "png" in wrong.output) == (1, True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["net.onnx", "net.pt2"])
def test_an_exported_network_predicts_as_the_matched_one_and_says_how(here: Path, name: str) -> None:
    save_file(open_network("nets_of_mine:net", seed=7).state_dict(), here / "net.safetensors")
    weights, how = ["--weights", "net.safetensors"], ["--grey", "--mean", "0.4", "--std", "0.2"]
    run("fit", "nets_of_mine:net", "photos", "--out", "stats", *weights, *how)
    assert name in run("export", "nets_of_mine:net", "--statistics", "stats", "--out", name, *weights).stdout
    known = exported_metadata(here / name)
    assert known["classes"] == ["dark", "light"]
    assert (known["preprocessing"]["mean"], known["preprocessing"]["std"]) == ([0.4], [0.2])
    assert (known["protocol"]["method"], known["protocol"]["training_images"]) == ("matched", 240)
    robust = sm.match(open_network("nets_of_mine:net", here / "net.safetensors"), sm.Statistics.load(here / "stats"))
    x = torch.randn(20, 1, 8, 8)
    if name.endswith(".pt2"):
        found = torch.export.load(here / name).module()(x)
    else:
        session = pytest.importorskip("onnxruntime").InferenceSession(here / name, providers=["CPUExecutionProvider"])
        found = torch.from_numpy(session.run(None, {"images": x.numpy()})[0])
    torch.testing.assert_close(found, robust(x), rtol=0, atol=1e-4)


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
