"""What every command has in common: messages instead of tracebacks, exit codes, --quiet, --version, Ctrl-C."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import typer
from command_lines import LEAVES, command_at, options_of
from made_sets import write_cifar10
from PIL import Image
from typer.testing import CliRunner

from shiftmatch.cli import app

BINARY = bytes(range(256)) * 4
NETWORK = """
from torch import nn
def net():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 2))
def maps():
    return nn.Conv2d(1, 4, 3)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.delitem(sys.modules, "doors", raising=False)
    (tmp_path / "doors.py").write_text(NETWORK)
    (tmp_path / "binary").write_bytes(BINARY)
    Image.new("RGB", (40, 40)).save(tmp_path / "photo.png")
    pixels = np.random.default_rng(0).integers(0, 255, (60, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "x.npz", images=pixels, labels=np.arange(60) % 2)
    np.savez(tmp_path / "three.npz", images=pixels, labels=np.arange(60) % 3)
    return tmp_path


def test_the_version_is_told() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout.startswith("shiftmatch 0.")


def test_completion_can_be_installed() -> None:
    assert "--install-completion" in CliRunner().invoke(app, ["--help"]).stdout


@pytest.mark.parametrize("name", LEAVES)
def test_every_help_has_an_example(name: str) -> None:
    words = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*name.split(), "--help"]).stdout
    assert f"Example: shiftmatch {name}" in words


@pytest.mark.parametrize("name", ["", *LEAVES])
def test_the_examples_have_only_options_that_there_are(name: str) -> None:
    lines = " ".join(line.strip() or "\n" for line in (command_at(name.split()).help or "").splitlines()).split("\n")
    examples = [line[line.index("shiftmatch ") :] for line in lines if re.search(r"(^|: )\s*shiftmatch \w+", line)]
    assert examples
    for line in examples:
        rest, known = options_of(shlex.split(line)[1:])
        assert {word for word in rest if word.startswith("--")} <= known, line


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_prints_json_where_a_script_would_want_it(name: str) -> None:
    _, known = options_of(name.split())
    assert ("--json" in known) == (name != "reproduce")  # which writes NAME.json


@pytest.mark.parametrize("words", [*(f"{name} --help" for name in LEAVES), "--help", "sites nowhere:net 3x8x8", "fit"])
def test_there_are_no_colours_where_there_is_no_terminal(words: str) -> None:
    result = CliRunner().invoke(app, words.split())
    assert result.output
    assert "\x1b" not in result.output


@pytest.mark.parametrize("name", LEAVES)
def test_ctrl_c_says_how_to_go_on(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    root: Any = typer.main.get_command(app)
    leaf = command_at(name.split(), root)

    def stop(**_: object) -> None:
        raise KeyboardInterrupt

    leaf.params, leaf.callback = [], stop
    assert root.main(name.split(), standalone_mode=False) == 130
    said = capsys.readouterr().err
    assert said.startswith("stopped: ")
    assert "the same command" in said


def test_the_help_tells_the_exit_codes() -> None:
    words = " ".join(CliRunner(env={"COLUMNS": "200"}).invoke(app, ["--help"]).stdout.split())
    assert "Exit codes: 0 done, 1 an error, 2 wrong usage, 3 done but some images were refused, 130" in words


@pytest.mark.usefixtures("here")
def test_results_as_json() -> None:
    def found(words: str) -> Any:
        result = CliRunner().invoke(app, [*words.split(), "--json", "--quiet"])
        assert result.exit_code == 0, (result.output, result.exception)
        return json.loads(result.stdout)

    assert found("fit doors.py:net x.npz --out s")["images"] == 60
    assert found("predict doors.py:net x.npz --statistics s --out labels.csv")["images"] == 60
    assert found("diagnose doors.py:net x.npz --statistics s")["images"] == 60
    assert found("sites doors.py:net 1x8x8")[0]["name"] == "input"
    assert found("export doors.py:net --statistics s --out net.pt2") == {"out": "net.pt2"}
    run = found("sample doors.py:net x.npz --method sghmc --draws 2 --burn-in 1 --steps 1 --out draws")
    assert (run["draws"], run["chains"]) == (2, [2])
    assert found("corrupt cifar10-c --show photo.png --out sheet.png") == {"out": "sheet.png"}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("fit doors.py:net x.npz --out s --mean 1,2", "one number, or one per channel"),
        ("fit doors.py:net x.npz --out s --std 0", "above 0"),
        ("fit doors.py:net x.npz --out s --mean inf", "one number, or one per channel"),
        ("fit doors.py:net x.npz --out x.npz", "x.npz is read by this command"),
        ("predict doors.py:net x.npz --out x.npz", "x.npz is read by this command"),
        ("predict doors.py:net x.npz --out s --prior-images 8", "Pass --statistics too"),
        ("predict doors.py:maps x.npz --out s", "(16, 4, 6, 6) for 16 images; expected (16, K)"),
        ("sample doors.py:net three.npz --out s", "labels up to 2, but the network has 2 outputs"),
        ("sample doors.py:net x.npz --out s --method sgld --step-size nan", "--step-size"),
        ("sample doors.py:net x.npz --out s --method sgld --step-size 1e30 --draws 1 --burn-in 1", "diverged"),
        ("corrupt --show nowhere.png", "nowhere.png cannot be read (No such file or directory)"),
        ("corrupt --show photo.png --limit 3 --out s", "--show draws all corruptions of one image"),
        ("corrupt cifar10-c --show photo.png --out photo.png", "photo.png is read by this command"),
        ("fit doors.py:net x.npz --out .", "is a folder; name a file"),
        ("fit doors.py:net x.npz --out binary/s", "cannot be written"),
        ("fit doors.py:net binary --out s", "neither an image"),
        ("fit lenet x.npz --out s", "--random-weights"),
        ("fit doors.py:net x.npz --out s --device cuda:9", "--device cuda:9 cannot be used"),
        ("fit doors.py:net x.npz --out s --covariance Round", "Round"),
        ("predict lenet x.npz --out s", "--random-weights"),
        ("predict doors.py:net x.npz --out s --statistics binary", "binary is damaged or no safetensors file"),
        ("predict doors.py:net x.npz --out s --weights binary", "binary"),
        ("predict doors.py:net x.npz --out s --weights nowhere.pt", "There is no file nowhere.pt"),
        ("sample doors.py:net x.npz --out s --posterior binary", "No such option"),
        ("evaluate lenet --suite mnist-c --out s.csv --root .", "shiftmatch data get mnist"),
        ("report binary --no-open", "binary"),
        ("report nowhere.csv --no-open", "There is no file nowhere.csv"),
        ("corrupt --show binary", "not an image"),
        ("corrupt round-c", "There is no suite"),
        ("data get imagenette", "There is no data set"),
        ("sites doors.py:net 3x8x8", "does not take images of shape 3 × 8 × 8"),
        ("sites doors.py:net large", "3x224x224"),
        ("import-hmc binary --network lenet --out s", "binary"),
    ],
)
def test_mistakes_are_answered_in_words_and_by_the_exit_code(words: str, answer: str) -> None:
    result = CliRunner(env={"COLUMNS": "300"}).invoke(app, words.split())
    assert answer in result.output, result.exception
    assert result.exit_code == (2 if "No such option" in answer else 1)
    assert not Path("s").exists()


@pytest.mark.parametrize("words", [["fit", "--quiet"], ["--quiet", "fit"], ["fit", "-q"]])
def test_quiet_may_stand_anywhere(here: Path, words: list[str]) -> None:
    options = ["doors.py:net", "x.npz", "--out", "stats"]
    result = CliRunner().invoke(app, [*words, *options])
    assert (result.exit_code, result.output) == (0, "")
    assert (here / "stats").exists()
    assert "60 images" in CliRunner().invoke(app, ["fit", *options]).stdout
    assert "SHIFTMATCH_QUIET" not in os.environ


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("words", ["sites doors.py:net 1x8x8", "data list --root ."])
def test_quiet_silences_lists(words: str) -> None:
    assert CliRunner().invoke(app, [*words.split(), "--quiet"]).output == ""
    assert json.loads(CliRunner().invoke(app, [*words.split(), "--quiet", "--json"]).stdout)


@pytest.mark.usefixtures("here")
@pytest.mark.filterwarnings("default")
def test_advice_on_small_batches_speaks_of_options() -> None:
    CliRunner().invoke(app, ["fit", "doors.py:net", "x.npz", "--covariance", "SpatialKronecker", "--out", "stats"])
    words = ["predict", "doors.py:net", "x.npz", "--statistics", "stats", "--batch-size", "5", "--out", "labels.csv"]
    said = CliRunner().invoke(app, words).stderr
    assert said.count("warning: ") == 1
    assert "--prior-images" in said
    assert "prior=" not in said
    assert ".py" not in said


@pytest.mark.usefixtures("here")
def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "labels.csv")

    monkeypatch.setattr(sys.modules["shiftmatch.cli.predict"], "_write", full)
    result = CliRunner().invoke(app, ["predict", "doors.py:net", "x.npz", "--out", "labels.csv"])
    assert result.exit_code == 1
    assert "free some space" in result.stderr


def test_too_little_memory_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing_left(*_: object, **__: object) -> NoReturn:
        raise MemoryError

    monkeypatch.setattr("shiftmatch.cli.loading.open_network", nothing_left)
    result = CliRunner().invoke(app, ["sites", "lenet", "1x28x28"])
    assert result.exit_code == 1
    assert "too little memory" in result.stderr


def test_the_paper_is_reproduced_in_a_clone_only(tmp_path: Path) -> None:
    run = [sys.executable, "-c", "from shiftmatch.cli import main; main()", "reproduce", "list"]
    environment = {**os.environ, "PYTHONPATH": str(Path("src").resolve())}
    result = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "Run this in a clone of the repository" in result.stderr.replace("\n", " ")


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_says_how_to_go_on_and_workers_are_silent(tmp_path: Path, workers: str) -> None:
    write_cifar10(tmp_path, 2000)
    words = ["corrupt", "cifar10-c", "--root", str(tmp_path), "--out", str(tmp_path / "out"), "--workers", workers]
    environment = {**os.environ, "PYTHONPATH": str(Path("src").resolve()), "OMP_NUM_THREADS": "1"}
    # A background shell starts its commands with interrupts ignored, and Python leaves it at that.
    heeding = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    heeding += "; from shiftmatch.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", heeding, *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not list((tmp_path / "out").rglob("*.npy")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to all
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    assert err == "stopped: What is finished is kept: the same command resumes there.\n"


@pytest.mark.usefixtures("here")
def test_a_network_whose_outputs_are_no_numbers_is_told_with_the_image() -> None:
    Path("doors.py").write_text(NETWORK + BROKEN)
    result = CliRunner(env={"COLUMNS": "300"}).invoke(app, "predict doors.py:broken x.npz --out labels.csv".split())
    assert result.exit_code == 1
    assert re.search(r"outputs are NaN or infinite, for \d+ to begin with\. Check its weights", result.stderr)
    assert not Path("labels.csv").exists()


BROKEN = """
class Broken(nn.Sequential):
    def forward(self, x):
        return super().forward(x) / 0
def broken():
    return Broken(*net())
"""


@pytest.mark.usefixtures("here")
def test_classes_of_other_images_than_the_networks_are_written_as_numbers() -> None:
    for name in ("cat", "dog", "eel"):
        Path("train", name).mkdir(parents=True)
        for number in range(20):
            pixels = np.random.default_rng(number).integers(0, 255, (8, 8), dtype=np.uint8)
            Image.fromarray(pixels).save(Path("train", name, f"{number}.png"))
    words = "fit doors.py:net train --grey --out s"
    assert CliRunner().invoke(app, words.split()).exit_code == 0
    result = CliRunner(env={"COLUMNS": "300"}).invoke(
        app, "predict doors.py:net x.npz --statistics s --grey --out labels.csv".split()
    )
    assert result.exit_code == 0, result.output
    assert "warning: the statistics name 3 classes, the network has 2 outputs" in result.stderr
    rows = [line.split(",") for line in Path("labels.csv").read_text().splitlines()[1:]]
    assert len(rows) == 60
    assert {row[1] for row in rows} <= {"0", "1"}


@pytest.mark.usefixtures("here")
def test_a_picture_of_another_kind_is_refused_before_the_work() -> None:
    words = "diagnose doors.py:net nowhere.npz --statistics s --plot spectra.gif"
    result = CliRunner(env={"COLUMNS": "300"}).invoke(app, words.split())
    assert result.exit_code == 1
    assert "A picture is a .png or an .svg file; got --plot spectra.gif" in result.stderr


def test_a_reader_that_closes_the_output_sees_no_traceback(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    run = [sys.executable, "-c", "from shiftmatch.cli import main; main()", "data", "list", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(Path("src").resolve()), "SHIFTMATCH_DATA": str(tmp_path)}
    result = subprocess.run(run, env=environment, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (result.returncode, result.stderr) == (1, "")
