"""Networks are trained when they are missing, once, and training resumes after an interruption."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from made_sets import write_cifar10_train
from paper import training
from paper.training import (
    ENSEMBLE,
    HMC,
    NETWORKS,
    SGD,
    SGHMC,
    VI,
    Descent,
    Langevin,
    MeanField,
    Networks,
    hmc_file,
    training_data,
)

from shiftmatch.errors import DataNotFoundError, InputError
from shiftmatch.models import Architecture
from shiftmatch.models.layers import initialise
from shiftmatch.samplers.posterior import Posterior, params_of

TINY = NETWORKS["tiny"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_cifar10_train(folder)
    return folder


@pytest.mark.parametrize(("kind", "count"), [(SGD, 1), (ENSEMBLE, 2), (SGHMC, 2), (VI, 2)])
def test_every_kind_has_its_draws(root: Path, kind: str, count: int) -> None:
    posterior = TINY.posterior(kind, root)
    assert len(posterior) == count
    assert posterior.models()[0](torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_sgd_is_the_first_member_of_the_ensemble(root: Path) -> None:
    ensemble, first = TINY.posterior(ENSEMBLE, root), TINY.posterior(SGD, root)
    assert torch.equal(ensemble[0]["linear.weight"], first[0]["linear.weight"])
    assert not torch.equal(ensemble[0]["linear.weight"], ensemble[1]["linear.weight"])


def test_what_is_trained_is_not_trained_again(root: Path) -> None:
    TINY.posterior(SGD, root)
    files = {file: file.stat().st_mtime_ns for file in TINY.folder(root).rglob("*")}
    TINY.posterior(SGD, root)
    assert {file: file.stat().st_mtime_ns for file in TINY.folder(root).rglob("*")} == files
    assert replace(TINY, seed=9).folder(root) != TINY.folder(root)


def test_training_resumes_after_an_interruption(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = replace(TINY, seed=5, sgd=Descent(thin=1, rounds=3, rate=0.01))
    whole = replace(long, seed=6).member(-1, root)  # the same seed in another folder
    steps = iter(range(2))
    real = torch.func.functional_call
    monkeypatch.setattr("shiftmatch.samplers.density.functional_call", lambda *a: (next(steps), real(*a))[1])
    with pytest.raises((StopIteration, RuntimeError)):
        long.member(0, root)
    monkeypatch.undo()
    resumed = long.member(0, root)
    assert all(torch.equal(resumed[0][name], value) for name, value in whole[0].items())


def test_hmc_is_imported_not_drawn(root: Path) -> None:
    with pytest.raises(DataNotFoundError, match="import-hmc"):
        TINY.posterior(HMC, root)
    network = initialise(Architecture("resnet20_frn").build(), torch.Generator())
    Posterior.of([params_of(network)], architecture=Architecture("resnet20_frn")).save(hmc_file(root))
    assert len(TINY.posterior(HMC, root)) == 1
    with pytest.raises(InputError, match="SGD, ensemble"):
        TINY.posterior("Laplace", root)


def test_inputs_are_normalised_as_published(root: Path) -> None:
    x, labels = training_data(10, root)
    assert x.shape == (10, 3, 32, 32)
    assert labels.shape == (10,)
    assert x.min() >= -0.49 / 0.2
    assert x.max() <= 0.56 / 0.2 + 1e-6


def test_shipped_members_are_read_from_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "SHIPPED", tmp_path)
    with pytest.raises(DataNotFoundError, match="cifar_frn 1"):
        NETWORKS["small"].member(1)
    network = initialise(Architecture("resnet20_frn").build(), torch.Generator())
    Posterior.of([params_of(network)]).save(tmp_path / "resnet20_frn-1.safetensors")
    assert len(NETWORKS["small"].member(1)) == 1


def test_the_paper_size_is_the_default() -> None:
    assert NETWORKS["paper"] == Networks()


EPOCH = 40_960 // 80


def test_defaults_are_the_published_settings() -> None:
    sgd, sghmc, vi = Descent(), Langevin(), MeanField()
    assert (sgd.thin, sgd.rounds, round(sgd.rate, 4), sgd.weight_decay) == (EPOCH, 500, 0.0123, 10.0)
    assert sgd.burn_in + sgd.draws == sgd.rounds
    assert (sghmc.thin * sghmc.burn_in, sghmc.thin * (sghmc.burn_in + sghmc.draws)) == (1000 * EPOCH, 10_000 * EPOCH)
    assert (vi.thin * vi.burn_in, vi.draws, vi.rate) == (300 * EPOCH, 50, 1e-4)


def test_the_published_chain_is_long_enough_to_forget_its_start() -> None:
    settings = NETWORKS["paper"].sghmc
    assert settings.thin * settings.burn_in > 2 * settings.relaxation
    assert settings.thin * settings.draws > 4 * settings.relaxation


def test_the_small_size_has_no_variational_fit_and_says_so() -> None:
    with pytest.raises(DataNotFoundError, match="mean-field"):
        NETWORKS["small"].posterior(VI)
