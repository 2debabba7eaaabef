"""The loop and its storage: a run that is killed at any moment resumes as if nothing had happened."""

import copy
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from interrupts import interrupted
from known_answers import GAUSSIAN
from torch import Tensor, nn

from shiftmatch.errors import FileFormatError, InputError
from shiftmatch.samplers.density import log_posterior
from shiftmatch.samplers.hmc import HMCState, hmc
from shiftmatch.samplers.posterior import Params, Posterior, params_of, standard_normal
from shiftmatch.samplers.priors import Prior, gaussian, laplace
from shiftmatch.samplers.sampling import Sampler, flatten, sample, sample_chains, unflatten
from shiftmatch.samplers.sgld import sgld


def test_ten_kills_at_random_moments_change_no_bit_of_the_draws(tmp_path: Path) -> None:
    tests = Path(__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": str(tests.parent / "src")}
    subprocess.run([sys.executable, tests / "resumable_run.py", tmp_path], env=environment, check=True)
    calm, rough = (Posterior.load(tmp_path / f"{name}.safetensors") for name in ("calm", "rough"))
    assert all(torch.equal(calm.params[name], rough.params[name]) for name in calm.params)
    assert calm.info == rough.info


def test_a_longer_run_extends_a_shorter_one(tmp_path: Path) -> None:
    sampler = sgld(GAUSSIAN.log_density, step_size=0.01)

    def run(draws: int, folder: Path | None) -> Posterior:
        generator = torch.Generator().manual_seed(1)
        return sample(sampler, GAUSSIAN.start, draws=draws, burn_in=2, thin=3, generator=generator, folder=folder)

    run(4, tmp_path)
    extended, at_once = run(9, tmp_path), run(9, None)
    assert torch.equal(extended.params["x"], at_once.params["x"])
    assert extended.info == at_once.info
    shorter, alone = run(4, tmp_path), run(4, None)
    assert torch.equal(shorter.params["x"], alone.params["x"])
    assert shorter.info == alone.info


class Position(NamedTuple):
    params: Params


def test_a_sampler_that_records_nothing_is_resumed_too(tmp_path: Path) -> None:
    def step(state: Position, generator: torch.Generator) -> Position:
        noise = standard_normal(state.params, generator)
        return Position({name: x + noise[name] for name, x in state.params.items()})

    def run(draws: int, folder: Path | None) -> Posterior:
        generator = torch.Generator().manual_seed(1)
        walk = Sampler(Position, step)
        return sample(walk, GAUSSIAN.start, draws=draws, burn_in=2, generator=generator, folder=folder)

    run(2, tmp_path)
    assert torch.equal(run(5, tmp_path).params["x"], run(5, None).params["x"])


def test_a_folder_with_another_run_is_not_overwritten(tmp_path: Path) -> None:
    sampler = sgld(GAUSSIAN.log_density, step_size=0.01)
    sample(sampler, GAUSSIAN.start, draws=2, generator=torch.Generator().manual_seed(1), folder=tmp_path)
    with pytest.raises(InputError, match=r"differs in seed.*1.*2"):
        sample(sampler, GAUSSIAN.start, draws=2, generator=torch.Generator().manual_seed(2), folder=tmp_path)
    other = hmc(GAUSSIAN.log_density, step_size=0.1, trajectory=1.0)
    with pytest.raises(InputError, match=r"differs in .*sampler.*'sghmc'.*'hmc'"):
        sample(other, GAUSSIAN.start, draws=2, generator=torch.Generator().manual_seed(1), folder=tmp_path)


MODEL = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 2)).eval()
X, Y = torch.randn(8, 2, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 2


def regression(
    x: Tensor = X, prior: Prior | None = None, trajectory: float = 0.2, model: nn.Module = MODEL, **settings: Any
) -> Sampler[HMCState]:
    density = log_posterior(model, (x, Y), prior=prior or gaussian(1.0), **settings)
    return hmc(density, step_size=0.1, trajectory=trajectory)


def with_other_moments() -> nn.Module:
    model = copy.deepcopy(MODEL)
    model.get_buffer("1.running_mean").add_(1.0)
    return model


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (regression(X + 1), "density.inputs"),
        (regression(prior=gaussian(2.0)), "density.prior"),
        (regression(prior=laplace(1.0)), "density.prior"),
        (regression(temperature=0.5), "density.temperature"),
        (regression(trajectory=0.3), "trajectory"),
        (regression(model=with_other_moments()), "density.network"),
    ],
    ids=["data", "prior scale", "prior", "temperature", "trajectory", "buffers"],
)
def test_a_run_of_another_posterior_is_not_resumed(other: Sampler[HMCState], named: str, tmp_path: Path) -> None:
    def run(sampler: Sampler[HMCState], start: nn.Module | Params = MODEL) -> Posterior:
        return sample(sampler, start, draws=2, generator=torch.Generator().manual_seed(1), folder=tmp_path)

    first = run(regression())
    assert torch.equal(run(regression()).params["0.weight"], first.params["0.weight"])
    with pytest.raises(InputError, match=rf"differs in {re.escape(named)} "):
        run(other)
    with pytest.raises(InputError, match="differs in start"):
        run(regression(), {name: value + 1 for name, value in params_of(MODEL).items()})


def test_a_run_is_resumed_with_a_template_of_other_weights(tmp_path: Path) -> None:
    """The weights of the network in the density are not used, so they do not count; those of the start do."""
    templates = [nn.Linear(2, 2) for _ in range(2)]
    start = params_of(nn.Linear(2, 2))
    runs = [
        sample(regression(model=model), start, draws=2, generator=torch.Generator().manual_seed(1), folder=tmp_path)
        for model in templates
    ]
    assert torch.equal(runs[0].params["weight"], runs[1].params["weight"])


def test_numbers_are_drawn_where_the_parameters_are() -> None:
    like = {"w": torch.zeros(3, device="meta", dtype=torch.float16)}
    drawn = standard_normal(like, torch.Generator())["w"]
    assert (drawn.device.type, drawn.dtype) == ("meta", torch.float16)


def test_chains_have_their_own_seeds_and_folders(tmp_path: Path) -> None:
    sampler = sgld(GAUSSIAN.log_density, step_size=0.01)
    merged = sample_chains(sampler, [GAUSSIAN.start] * 3, draws=4, seed=5, folder=tmp_path)
    alone = sample(sampler, GAUSSIAN.start, draws=4, generator=torch.Generator().manual_seed(6))
    assert merged.chains == (4, 4, 4)
    assert torch.equal(merged[4]["x"], alone[0]["x"])
    assert not torch.equal(merged[0]["x"], merged[4]["x"])
    assert {file.name for file in tmp_path.iterdir()} == {"chain-0", "chain-1", "chain-2"}


class State(NamedTuple):
    params: Params
    energy: Tensor


def test_a_state_survives_being_flattened() -> None:
    state = State({"a.b": torch.randn(2), "c": torch.randn(3)}, torch.tensor(1.5))
    flat = flatten(state)
    assert flat.keys() == {"params/a.b", "params/c", "energy"}
    back = unflatten(flat, state)
    assert torch.equal(back.params["a.b"], state.params["a.b"])
    assert back.energy == 1.5


def test_a_state_of_another_sampler_is_refused() -> None:
    state = State({"a": torch.zeros(1)}, torch.zeros(()))
    with pytest.raises(FileFormatError, match="params/a"):
        unflatten({"energy": torch.zeros(())}, state)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # an interrupt inside a callback
def test_an_interrupt_at_any_moment_leaves_nothing_behind(tmp_path: Path) -> None:
    density = log_posterior(MODEL, (X, Y))
    samplers = [sgld(density, step_size=0.01), hmc(density, step_size=0.05, trajectory=0.5, tune=2)]

    def run(sampler: Any, folder: Path | None = None) -> Posterior:
        generator = torch.Generator().manual_seed(1)
        return sample(sampler, MODEL, draws=4, burn_in=2, generator=generator, folder=folder, progress=False)

    expected = [run(sampler) for sampler in samplers]
    folders = [tmp_path / "sgld", tmp_path / "hmc"]
    kept = [partial(run, *pair) for pair in zip(samplers, folders, strict=True)]
    interrupted([*(partial(run, sampler) for sampler in samplers), *kept], MODEL)
    for one, again in zip(expected, kept, strict=True):
        assert all(torch.equal(tensor, again().params[name]) for name, tensor in one.params.items())
