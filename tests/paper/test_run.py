"""Every experiment at its smallest size, from a made-up data folder to files."""

import json
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest
from paper import run
from paper.__main__ import main
from paper.claims import Claim, Verdict
from paper.imagenet import Sample
from paper.registry import EXPERIMENTS, SIZES, experiment_named
from paper.run import Experiment, overview
from tiny_data import small_network, write_data_sets

from shiftmatch.demo import embedded
from shiftmatch.errors import InputError
from shiftmatch.evaluation.scores import Scores

# So few images are warned about, which is right but not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::shiftmatch.errors.SmallBatchWarning")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_data_sets(folder)
    return folder


@pytest.fixture(autouse=True)
def small_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped ensemble for every posterior, and a small network for photographs."""
    ensemble = embedded.posterior_file("ensemble")
    monkeypatch.setattr(embedded, "posterior_file", lambda name: ensemble)
    monkeypatch.delenv("SHIFTMATCH_WEIGHTS", raising=False)
    monkeypatch.setattr(Sample, "network", lambda self, data: small_network())


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_scores_figures_and_comparisons_come_out(name: str, root: Path, tmp_path: Path) -> None:
    found = run.reproduce(name, EXPERIMENTS[name], size="tiny", out=tmp_path, data=root)
    assert len(found.scores) > 0
    assert Scores.load(tmp_path / f"{name}.csv").rows == found.scores.rows
    assert all(file.stat().st_size > 0 for file in found.files)
    for figure in tmp_path.glob("*.svg"):
        ElementTree.parse(figure)
    assert found.claims
    assert found.table().row_count == len(found.claims)
    provenance = json.loads((tmp_path / f"{name}.json").read_text())
    assert provenance["command"] == f"python -m paper {name} --size tiny"
    assert str(root) not in (tmp_path / f"{name}.json").read_text()
    if name == "fig1":
        check_what_is_missing(found.left_out)


def check_what_is_missing(left_out: Mapping[str, str]) -> None:
    assert set(left_out) >= {
        "HMC",
        "HMC + ShiftMatch (paper)",
        "HMC + ShiftMatch (paper) (cifar10.1-v6)",
        "ensemble + ShiftMatch (paper) (cifar10.1-v6)",
    }
    assert "import-hmc" in left_out["HMC"]
    assert "shiftmatch data get cifar10.1-v6" in left_out["ensemble + ShiftMatch (paper) (cifar10.1-v6)"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ablation", "shiftmatch-batchnorm"])
def test_a_second_run_from_scratch_gives_the_same_bytes(name: str, root: Path, tmp_path: Path) -> None:
    run.reproduce(name, EXPERIMENTS[name], size="tiny", out=tmp_path / "first", data=root)
    (root / "reproduce").rename(tmp_path / "finished cells")
    run.reproduce(name, EXPERIMENTS[name], size="tiny", out=tmp_path / "second", data=root)
    for file in (tmp_path / "first").iterdir():
        assert file.read_bytes() == (tmp_path / "second" / file.name).read_bytes(), file.name


def test_every_experiment_has_every_size_and_is_listed() -> None:
    for entry in EXPERIMENTS.values():
        assert set(entry.sizes) == {"tiny", *SIZES}
        assert all(isinstance(experiment, Experiment) for experiment in entry.sizes.values())
    assert overview(EXPERIMENTS).row_count == len(EXPERIMENTS)


def test_wrong_names_are_refused() -> None:
    with pytest.raises(InputError, match="fig1"):
        experiment_named("fig9")


def test_the_command_lists_and_runs_on_after_one_that_cannot_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list"]) == 0
    assert "fig1-full" in capsys.readouterr().out
    few = {name: EXPERIMENTS[name] for name in ("fig2", "timing-overhead")}
    monkeypatch.setattr("paper.registry.EXPERIMENTS", few)
    monkeypatch.setattr("paper.registry.SIZES", ("tiny",))
    options = ["--size", "tiny", "--out", str(tmp_path / "out"), "--root", str(tmp_path / "no data")]
    assert main(["all", *options]) == 1
    assert "fig2 could not be run" in capsys.readouterr().err
    assert (tmp_path / "out" / "timing-overhead.csv").exists()


def test_the_page_is_rewritten_from_the_results(tmp_path: Path) -> None:
    claim = Claim("matching helps", "yes", "12.0 points", "10.0 to 14.0", 1000, Verdict.AGREES)
    record = {"experiment": "fig1", "place": "Figure 1", "command": "python -m paper fig1", "claims": [claim._asdict()]}
    (tmp_path / "fig1.json").write_text(json.dumps(record | {"left out": {"HMC": "not there"}}))
    (tmp_path / "corruption_speed.json").write_text("{}")
    page = tmp_path / "page.md"
    page.write_text(f"before\n{run.BEGIN}\nold\n{run.END}\nafter\n")
    run.write_table(page, tmp_path)
    text = page.read_text()
    assert "| matching helps | yes | 12.0 points | 10.0 to 14.0 | 1,000 | agrees |" in text
    assert "Left out: HMC." in text
    assert "1 agrees, 0 differs beyond noise, 0 cannot tell" in text
    assert "old" not in text
    run.write_table(page, tmp_path)
    assert page.read_text() == text
