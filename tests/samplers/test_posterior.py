import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from shiftmatch.errors import FileFormatError, InputError
from shiftmatch.models import Architecture
from shiftmatch.samplers.posterior import KIND, Posterior, params_of
from shiftmatch.utils.tensor_files import save_tensors

TINY = Architecture("mlp", {"inputs": 4, "hidden": (3,), "classes": 2})


def chain(length: int, seed: int = 0) -> Posterior:
    torch.manual_seed(seed)
    return Posterior.of([params_of(TINY.build()) for _ in range(length)], architecture=TINY, info={"seed": seed})


def test_a_file_gives_back_what_was_saved(tmp_path: Path) -> None:
    before = Posterior.merge([chain(3), chain(2, seed=1)])
    before.save(tmp_path / "posterior.safetensors")
    after = Posterior.load(tmp_path / "posterior.safetensors")
    assert after.chains == (3, 2)
    assert after.architecture == Architecture("mlp", {"inputs": 4, "hidden": [3], "classes": 2})
    assert after.info == {"chains": [{"seed": 0}, {"seed": 1}]}
    for one, other in zip(before, after, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_half_precision_halves_the_file_and_is_read_as_single(tmp_path: Path) -> None:
    posterior = Posterior.of([{"w": torch.randn(10_000)}])
    posterior.save(tmp_path / "single")
    posterior.save(tmp_path / "half", dtype=torch.float16)
    assert (tmp_path / "half").stat().st_size < 0.55 * (tmp_path / "single").stat().st_size
    draw = Posterior.load(tmp_path / "half")[0]["w"]
    assert draw.dtype == torch.float32
    torch.testing.assert_close(draw, posterior[0]["w"], rtol=1e-3, atol=1e-6)


def test_models_are_the_draws_in_eval_mode() -> None:
    posterior = chain(3)
    x = torch.randn(5, 1, 2, 2)
    for draw, model in zip(posterior, posterior.models(), strict=True):
        hidden = (x.flatten(1) @ draw["dense1.weight"].T + draw["dense1.bias"]).relu()
        torch.testing.assert_close(model(x), hidden @ draw["dense2.weight"].T + draw["dense2.bias"])
        assert not model.training
    assert len(posterior.models()[1:]) == 2
    with pytest.raises(IndexError):
        posterior.models()[3]


def test_buffers_come_from_the_draw_or_else_from_the_template() -> None:
    template = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    template[1].running_mean.fill_(7.0)  # type: ignore[operator]
    only_parameters = Posterior.of([params_of(template)])
    whole = Posterior.of([nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).state_dict()])
    assert only_parameters.models(template)[0].state_dict()["1.running_mean"].tolist() == [7.0, 7.0]
    assert whole.models(template)[0].state_dict()["1.running_mean"].tolist() == [0.0, 0.0]


def test_merging_what_was_merged_is_merging_all() -> None:
    parts = [chain(2), chain(3, seed=1), chain(4, seed=2)]
    stepwise, at_once = Posterior.merge([Posterior.merge(parts[:2]), parts[2]]), Posterior.merge(parts)
    assert stepwise.chains == at_once.chains == (2, 3, 4)
    assert stepwise.info == at_once.info == {"chains": [{"seed": 0}, {"seed": 1}, {"seed": 2}]}


def test_slices_and_thinning_keep_the_chains_apart() -> None:
    merged = Posterior.merge([chain(5), chain(4, seed=1)])
    assert merged[4:6].chains == (1, 1)
    assert merged[:5].chains == (5,)
    thinned = merged.thin(2)
    assert thinned.chains == (3, 2)
    assert torch.equal(thinned[2]["dense1.bias"], merged[4]["dense1.bias"])
    assert torch.equal(thinned[4]["dense1.bias"], merged[8]["dense1.bias"])
    with pytest.raises(InputError, match="not 0"):
        merged.thin(0)


def test_a_number_of_numpy_is_the_number_of_a_draw() -> None:
    posterior = chain(3)
    assert all(torch.equal(x, posterior[1][name]) for name, x in posterior[np.int64(1)].items())


def test_wrong_networks_and_missing_names_are_explained() -> None:
    with pytest.raises(InputError, match=r"dense1\.bias"):
        chain(1).models(nn.Linear(2, 2))[0]
    with pytest.raises(InputError, match="pass one"):
        Posterior.of([{"w": torch.ones(1)}]).models()
    with pytest.raises(InputError, match="at least one"):
        Posterior.of([])
    with pytest.raises(InputError, match="at least one"):
        Posterior.merge([])
    with pytest.raises(InputError, match="one network only"):
        Posterior.merge([chain(1), Posterior.of([{"w": torch.ones(1)}])])


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(FileFormatError, match="damaged"):
        Posterior.load(tmp_path / "text")
    save_file({"w": torch.ones(1)}, tmp_path / "tensors")
    with pytest.raises(FileFormatError, match="does not hold a posterior"):
        Posterior.load(tmp_path / "tensors")


def test_members_can_be_sent_to_other_processes() -> None:
    members = chain(3).models()
    sent, images = pickle.loads(pickle.dumps(members)), torch.randn(5, 1, 2, 2)
    assert len(sent) == 3
    for ours, theirs in zip(members, sent, strict=True):
        assert torch.equal(ours(images), theirs(images))


@pytest.mark.parametrize("chains", [[2, 2], [-1, 4], [3.0], ["3"]])
def test_chains_that_do_not_add_up_to_the_draws_are_refused(tmp_path: Path, chains: list[object]) -> None:
    header: dict[str, object] = {"chains": chains, "architecture": None, "info": {}}
    save_tensors(tmp_path / "f", {"w": torch.zeros(3, 2)}, kind=KIND, version=1, header=header)
    with pytest.raises(FileFormatError, match="speaks of chains of"):
        Posterior.load(tmp_path / "f")
