"""`shiftmatch evaluate`, as a user would call it."""

import json
from pathlib import Path

import numpy as np
import pytest
from made_sets import make_images, make_labels, write_cifar, write_idx, write_mnist
from safetensors.torch import save_file
from typer.testing import CliRunner

from shiftmatch.cli import app
from shiftmatch.cli.evaluate import MAX_SHOWN, _show
from shiftmatch.cli.loading import open_network
from shiftmatch.evaluation.methods import METHODS
from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.metrics import METRICS
from shiftmatch.models import build
from shiftmatch.samplers.posterior import Posterior, params_of

NETWORK = """
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 4, 5, 3), nn.BatchNorm2d(4), nn.Linear(4 * 100, 10)
    def forward(self, x):
        return self.head(self.norm(self.conv(x)).relu().flatten(1))
"""
SHORT = ["--corruptions", "contrast,fog", "--severities", "1,5", "--train-images", "150"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a network, its weights, and small data sets in the published formats."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHIFTMATCH_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("sys.argv", ["shiftmatch", "evaluate", str(tmp_path / "net.safetensors")])
    (tmp_path / "nets_to_evaluate.py").write_text(NETWORK)
    write_cifar(tmp_path / "data" / "cifar-10-batches-bin" / "test_batch.bin", 120)
    for number in range(1, 6):
        write_cifar(tmp_path / "data" / "cifar-10-batches-bin" / f"data_batch_{number}.bin", 50)
    save_file(open_network("nets_to_evaluate:Net", seed=3).state_dict(), tmp_path / "net.safetensors")
    return tmp_path


def run(*words: str) -> str:
    result = CliRunner().invoke(app, ["evaluate", *words])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def test_a_users_network_is_evaluated_and_told_of(here: Path) -> None:
    words = ["nets_to_evaluate:Net", "--weights", "net.safetensors", "--mean", "0.5", "--std", "0.25", *SHORT]
    output = run(*words, "--out", "scores.csv", "--methods", "plain,tent,shiftmatch")
    scores = Scores.load(here / "scores.csv")
    assert scores.values("method") == ["plain", "Tent", "ShiftMatch: spectrum"]
    assert scores.values("corruption") == ["clean", "contrast", "fog"]
    assert scores.values("metric") == ["accuracy", "log_likelihood", "ece"]
    assert all(word in output for word in ("severity 1", "severity 5", "clean", "mean", "accuracy in %"))
    record = (here / "scores.json").read_text()
    assert json.loads(record)["evaluation"]["note"]["command"] == "shiftmatch evaluate net.safetensors"
    assert str(here) not in record
    before = [(here / name).read_bytes() for name in ("scores.csv", "scores.json")]
    cells = {file: file.stat().st_mtime_ns for file in (here / "scores.cells").iterdir()}
    assert run(*words, "--out", "scores.csv", "--methods", "plain,tent,shiftmatch") == output
    assert [(here / name).read_bytes() for name in ("scores.csv", "scores.json")] == before
    assert {file: file.stat().st_mtime_ns for file in (here / "scores.cells").iterdir()} == cells


def test_workers_find_the_users_network(here: Path) -> None:
    words = ["nets_to_evaluate:Net", "--weights", "net.safetensors", *SHORT, "--methods", "plain,ShiftMatch"]
    run(*words, "--out", "two.csv", "--workers", "2")
    run(*words, "--out", "one.csv")
    assert (here / "one.csv").read_bytes() == (here / "two.csv").read_bytes()


def test_a_posterior_on_mnist_c_with_training_images_of_ones_own(here: Path) -> None:
    write_mnist(here / "data", 250)
    np.savez(here / "own.npz", images=make_images(130, 28, 28), labels=make_labels(130))
    Posterior.of([params_of(build("lenet")) for _ in range(2)]).save(here / "p")
    words = ["lenet", "--posterior", "p", "--train", "own.npz", "--corruptions", "stripe", "--suite", "mnist-c"]
    run(*words, "--out", "scores.csv", "--methods", "plain,batchnorm,ShiftMatch", "--metrics", "accuracy,reliability")
    scores = Scores.load(here / "scores.csv")
    assert scores.values("severity") == [None]
    assert "reliability/14/share" in scores.values("metric")
    assert scores.provenance["evaluation"]["note"]["members"] == 2
    assert scores.provenance["evaluation"]["note"]["training images"] == 130
    assert (here / "scores.cells" / "statistics-ShiftMatch_spectrum.safetensors").exists()


def test_the_suites_own_training_images_are_the_first(here: Path) -> None:
    write_mnist(here / "data", 250)
    write_idx(here / "data" / "mnist" / "train-images-idx3-ubyte", make_images(140, 28, 28))
    write_idx(here / "data" / "mnist" / "train-labels-idx1-ubyte", make_labels(140))
    run(
        "lenet",
        "--random-weights",
        "--suite",
        "mnist-c",
        "--corruptions",
        "stripe",
        "--train-images",
        "120",
        "--out",
        "scores.csv",
    )
    assert Scores.load(here / "scores.csv").provenance["evaluation"]["note"]["training images"] == 120


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["--methods", "shiftmatsch"], "no method 'shiftmatsch'; choose among plain"),
        (["--metrics", "acc"], "no metric 'acc'; choose among accuracy"),
        (["--severities", "one"], "Severities are numbers such as 1,3,5; got one"),
        (["--corruptions", "smog"], "'smog'"),
        (["--suite", "mnist"], "no suite 'mnist'; there are"),
        (["--train", "nowhere"], "no folder or file nowhere"),
        (["--stream", "foo"], "foo"),
    ],
)
def test_mistakes_are_answered_in_words(words: list[str], answer: str) -> None:
    result = CliRunner().invoke(app, ["evaluate", "nets_to_evaluate:Net", "--out", "scores.csv", *words])
    assert answer in result.stderr.replace("\n", " ")
    assert result.exit_code == 1
    assert not Path("scores.csv").exists()


@pytest.mark.usefixtures("here")
def test_a_network_for_other_images_is_named() -> None:
    result = CliRunner().invoke(app, ["evaluate", "lenet", "--random-weights", "--out", "scores.csv"])
    assert "3 channels" in result.stderr or "does not take images of shape 3 × 32 × 32" in result.stderr


@pytest.mark.usefixtures("here")
def test_a_named_network_is_not_prepared_otherwise_by_accident() -> None:
    words = ["cifar_resnet32", "--random-weights", *SHORT, "--methods", "plain", "--std", "1", "--out", "scores.csv"]
    result = CliRunner().invoke(app, ["evaluate", *words])
    assert (result.exit_code, Path("scores.csv").exists()) == (1, False)
    assert "cifar_resnet32 says that it was trained on images prepared with std=0.229" in result.stderr


def test_help_teaches() -> None:
    shown = CliRunner().invoke(app, ["evaluate", "--help"], env={"COLUMNS": "400"}).output
    words = " ".join(shown.replace("│", " ").split())  # a name may be broken at the edge of its cell
    assert all(name in words for name in (*METHODS, *METRICS, "Example"))


@pytest.mark.usefixtures("here")
def test_results_as_json_and_a_network_that_guesses_is_warned_about() -> None:
    words = ["nets_to_evaluate:Net", "--weights", "net.safetensors", *SHORT, "--methods", "plain,ShiftMatch"]
    result = CliRunner(env={"COLUMNS": "400"}).invoke(app, ["evaluate", *words, "--out", "scores.csv", "--json"])
    assert result.exit_code == 0, (result.output, result.exception)
    found, scores = json.loads(result.stdout), Scores.load("scores.csv")
    assert found["out"] == "scores.csv"
    assert found["mean"].keys() == {"plain", "ShiftMatch: spectrum"}
    assert found["mean"]["plain"]["accuracy"] == scores.mean()["plain", "accuracy"]
    (clean,) = (row.value for row in scores.where(method="plain", corruption="clean", metric="accuracy"))
    assert clean < 0.2, "the weights are random"
    assert f"right on {clean:.1%} of the clean images, hardly better than guessing among 10 classes" in result.stderr


def test_only_the_cells_that_lose_most_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    lost = range(1, MAX_SHOWN + 4)
    rows = [
        Score(method, "cifar10-c", f"fog {points:02}", 3, "accuracy", value, 0, 100_000, 0.001)
        for points in lost
        for method, value in (("plain", 0.5), ("ShiftMatch", 0.5 - points / 100))
    ]
    _show(Scores(rows))
    shown = " ".join(capsys.readouterr().out.split())
    for points in lost:
        said = f"ShiftMatch loses {points}.0 points against plain on fog {points:02} 3"
        assert (said in shown) == (points > 3)
    assert "… and in 3 other cells, by less." in shown
