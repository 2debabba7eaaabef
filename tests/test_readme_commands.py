"""The commands of the README are run as they stand, one after the other; smaller where they would take long."""

import re
import shlex
import shutil
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from command_lines import options_of
from PIL import Image
from safetensors.torch import save_file
from shared_data import DATA, SHARED
from tiny_data import write_data_sets
from typer.testing import CliRunner

from shiftmatch.cli import app
from shiftmatch.cli.loading import open_network
from shiftmatch.evaluation.scores import Scores
from shiftmatch.models import Architecture, names

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SMALLER = {
    "demo": "--images 100 --draws 1 --no-open",
    "evaluate": "--limit 200 --train-images 200 --corruptions contrast --severities 5 --workers 1",
    "report": "--no-open",
    "sample": "--draws 2 --burn-in 1 --steps 2 --trajectory 0.001",
    "corrupt": "--limit 10 --only contrast",
    "reproduce": "--size tiny --root data --out results",
}
NETWORK = """
from torch import nn
def {name}():
    return nn.Sequential(nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(192, 10))
"""


def fenced(text: str) -> list[str]:
    """The commands of fenced blocks, without comments; those that go on behind a backslash in one piece."""
    blocks = re.findall(r"^```[a-z]*\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    lines = re.sub(r"\\\n\s*", "", "\n".join(blocks)).splitlines()
    return [line.lstrip("$ ") for line in lines if re.match(r"(\$ )?shiftmatch ", line)]


def inline(text: str) -> list[str]:
    return re.findall(r"`(shiftmatch [^`\n]+)`", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_in_the_docs_has_only_options_that_there_are(page: Path) -> None:
    text = page.read_text()
    for line in [*fenced(text), *inline(text)]:
        rest, known = options_of(shlex.split(line, comments=True)[1:])
        assert {word for word in rest if word.startswith("--")} <= known, f"{page.name}: {line}"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with little data sets, in which the README's files are made when a command names them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.setattr("sys.argv", ["shiftmatch"])
    write_data_sets(tmp_path / "data")
    real = (DATA / "cifar-10-batches-bin").is_dir()
    monkeypatch.setenv("SHIFTMATCH_DATA", str(DATA if real else tmp_path / "data"))
    if find_spec("paper.registry"):
        monkeypatch.setattr("paper.registry.SIZES", ("tiny", "small", "paper"))
    monkeypatch.setenv("HOME", str(tmp_path))  # nothing is written into anybody's home
    return tmp_path


def make_files(words: list[str]) -> None:
    """Whatever a command takes and nobody has: a network, its weights, images."""
    options = dict(pairwise(words))
    network = next((word for word in words[1:] if ":" in word or word in names()), "")
    place, _, function = network.partition(":")
    if function and not Path(file := f"{place.removesuffix('.py').replace('.', '/')}.py").exists():
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(NETWORK.format(name=function))
    weights = options.get("--weights")
    if weights and not Path(weights).exists():
        released = SHARED / "weights" / weights
        state = open_network(network).state_dict()
        write = save_file if weights.endswith(".safetensors") else torch.save
        shutil.copy(released, weights) if released.exists() else write(state, weights)
    data = words[2] if words[0] in ("fit", "predict", "sample") else options.get("--show", "")
    if data and not Path(data).exists():
        grey = network in names() and Architecture(network).preprocessing.grey
        make_images(Path(data), mode="L" if grey else "RGB")


def make_images(place: Path, *, mode: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (120, 40, 40, 3), dtype=np.uint8)
    if place.suffix == ".npz":
        np.savez(place, images=pixels, labels=np.arange(120) % 10)
    elif place.suffix == ".npy":
        np.save(place, pixels)
    elif place.suffix:
        Image.fromarray(pixels[0]).convert(mode).save(place)
    else:
        for number, image in enumerate(pixels):
            kind = place / f"class{number % 10}"
            kind.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).convert(mode).save(kind / f"{number}.png")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_commands_of_the_readme_run_as_they_stand(here: Path) -> None:
    commands = fenced((ROOT / "README.md").read_text())
    assert commands
    for line in commands:
        words = shlex.split(line, comments=True)[1:]
        if words[:2] == ["data", "get"] or "completion" in line:
            continue  # needs the network, or a shell
        make_files(words)
        smaller = [] if words[:2] == ["reproduce", "list"] else shlex.split(SMALLER.get(words[0], ""))
        result = CliRunner().invoke(app, [*words, *smaller])
        assert result.exit_code == 0, (line, result.output, result.exception)
    check_accuracy(here)


def check_accuracy(here: Path) -> None:
    """With the released weights, README's evaluation has the accuracy that its table tells, without further options."""
    scores = here / "scores.csv"
    if scores.exists() and SHARED.is_dir() and (DATA / "cifar-10-batches-bin").is_dir():
        clean = Scores.load(scores).where(corruption="clean", method="plain", metric="accuracy")
        assert all(row.value > 0.86 for row in clean), list(clean)
