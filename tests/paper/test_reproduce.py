"""Every experiment at its smallest size, from a made-up data folder to files."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from paper.experiments.experiment import Experiment
from paper.experiments.photographs import Sample
from paper.experiments.registry import EXPERIMENTS, SIZES
from paper.experiments.reproduce import overview, reproduce
from tiny_world import small_network, write_world

from shiftmatch.demo import embedded
from shiftmatch.errors import InputError
from shiftmatch.evaluation.scores import Scores

# So few images are warned about, which is right but not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::shiftmatch.errors.SmallBatchWarning")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_world(folder)
    return folder


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped ensemble for every posterior, and a small network for photographs."""
    ensemble = embedded.posterior_file("ensemble")
    monkeypatch.setattr(embedded, "posterior_file", lambda name: ensemble)
    monkeypatch.setattr(Sample, "network", lambda self, data: small_network())


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_scores_figures_and_comparisons_come_out(name: str, root: Path, tmp_path: Path) -> None:
    found = reproduce(name, size="tiny", out=tmp_path, data=root)
    assert len(found.scores) > 0
    assert Scores.load(tmp_path / f"{name}.csv").rows == found.scores.rows
    assert all(file.stat().st_size > 0 for file in found.files)
    for figure in tmp_path.glob("*.svg"):
        ElementTree.parse(figure)
    assert found.comparisons
    assert found.table().row_count == len(found.comparisons)
    provenance = json.loads((tmp_path / f"{name}.json").read_text())
    assert provenance["command"] == f"shiftmatch reproduce {name} --size tiny"
    assert str(root) not in (tmp_path / f"{name}.json").read_text()


def test_what_is_missing_is_named(root: Path, tmp_path: Path) -> None:
    left_out = reproduce("fig1", size="tiny", out=tmp_path, data=root).left_out
    assert set(left_out) == {
        "HMC",
        "HMC + ShiftMatch",
        "HMC + ShiftMatch (cifar10.1-v6)",
        "ensemble + ShiftMatch (cifar10.1-v6)",
    }
    assert "import-hmc" in left_out["HMC"]
    assert "shiftmatch data get cifar10.1-v6" in left_out["ensemble + ShiftMatch (cifar10.1-v6)"]


@pytest.mark.parametrize("name", ["fig4", "augmentation"])
def test_a_second_run_from_scratch_gives_the_same_bytes(name: str, root: Path, tmp_path: Path) -> None:
    reproduce(name, size="tiny", out=tmp_path / "first", data=root)
    (root / "reproduce").rename(tmp_path / "finished cells")
    reproduce(name, size="tiny", out=tmp_path / "second", data=root)
    for file in (tmp_path / "first").iterdir():
        assert file.read_bytes() == (tmp_path / "second" / file.name).read_bytes(), file.name


def test_every_experiment_has_every_size_and_is_listed() -> None:
    for entry in EXPERIMENTS.values():
        assert set(entry.sizes) == {"tiny", *SIZES}
        assert all(isinstance(experiment, Experiment) for experiment in entry.sizes.values())
    assert overview().row_count == len(EXPERIMENTS)


def test_wrong_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="fig1"):
        reproduce("fig9", out=tmp_path)
    with pytest.raises(InputError, match="small or paper"):
        reproduce("fig1", size="large", out=tmp_path)
