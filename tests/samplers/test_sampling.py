"""The loop and its storage: a run that is killed at any moment goes on as if nothing had happened."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from known_answers import GAUSSIAN

from shiftmatch.errors import FileFormatError, InputError
from shiftmatch.samplers.hmc import hmc
from shiftmatch.samplers.posterior import Posterior
from shiftmatch.samplers.sampling import sample, sample_chains
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
    assert len(run(4, tmp_path)) == 4


def test_a_folder_with_another_run_is_not_overwritten(tmp_path: Path) -> None:
    sampler = sgld(GAUSSIAN.log_density, step_size=0.01)
    sample(sampler, GAUSSIAN.start, draws=2, generator=torch.Generator().manual_seed(1), folder=tmp_path)
    with pytest.raises(InputError, match="seed=1, not 2"):
        sample(sampler, GAUSSIAN.start, draws=2, generator=torch.Generator().manual_seed(2), folder=tmp_path)
    other = hmc(GAUSSIAN.log_density, step_size=0.1, trajectory=1.0)
    with pytest.raises(FileFormatError, match="momentum"):
        sample(other, GAUSSIAN.start, draws=2, generator=torch.Generator().manual_seed(1), folder=tmp_path)


def test_chains_have_their_own_seeds_and_folders(tmp_path: Path) -> None:
    sampler = sgld(GAUSSIAN.log_density, step_size=0.01)
    merged = sample_chains(sampler, [GAUSSIAN.start] * 3, draws=4, seed=5, folder=tmp_path)
    alone = sample(sampler, GAUSSIAN.start, draws=4, generator=torch.Generator().manual_seed(6))
    assert merged.chains == (4, 4, 4)
    assert torch.equal(merged[4]["x"], alone[0]["x"])
    assert not torch.equal(merged[0]["x"], merged[4]["x"])
    assert {file.name for file in tmp_path.iterdir()} == {"chain-0", "chain-1", "chain-2"}
