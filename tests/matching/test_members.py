import pickle
from pathlib import Path

import pytest
import torch
from peak_memory import needs_proc, printed_memory
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.testing import assert_close

import shiftmatch as sm
from shiftmatch.errors import FileFormatError, InputError, StatisticsMismatchError
from shiftmatch.matching.average import average
from shiftmatch.matching.members import fit_members, load_members, match_members
from shiftmatch.samplers.posterior import Posterior


@pytest.fixture
def members() -> list[nn.Module]:
    torch.manual_seed(0)
    return [
        nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 6 * 6, 4)).eval() for _ in range(3)
    ]


@pytest.fixture
def train() -> Tensor:
    return torch.randn(300, 1, 8, 8, generator=torch.Generator().manual_seed(1))


def test_every_member_is_matched_to_its_own_statistics(members: list[nn.Module], train: Tensor, tmp_path: Path) -> None:
    statistics = fit_members(members, train, tmp_path / "stats", dtype=torch.float64)
    test = 3 * train[:150] + 1
    loop = [sm.match(member, sm.fit(member, train, progress=False))(test).softmax(-1) for member in members]
    expected = torch.stack(loop).mean(0).detach()
    assert_close(average(match_members(members, statistics))(test), expected, atol=1e-6, rtol=0)
    assert_close(average(match_members(members, statistics)[1:])(test), torch.stack(loop[1:]).mean(0).detach())


def test_single_precision_halves_the_file_and_keeps_predictions(
    members: list[nn.Module], train: Tensor, tmp_path: Path
) -> None:
    double = fit_members(members, train, tmp_path / "double", dtype=torch.float64)
    single = fit_members(members, train, tmp_path / "single")
    assert (tmp_path / "single").stat().st_size < 0.8 * (tmp_path / "double").stat().st_size
    test = 3 * train[:150] + 1
    ours, theirs = (average(match_members(members, kept))(test) for kept in (single, double))
    assert_close(ours, theirs, atol=1e-4, rtol=0)


def test_the_file_is_plain_safetensors_stacked_by_draw(members: list[nn.Module], train: Tensor, tmp_path: Path) -> None:
    statistics = fit_members(members, train, tmp_path / "stats", note="as it is", dtype=torch.float64)
    tensors = load_file(tmp_path / "stats")
    assert all(len(tensor) == 3 for tensor in tensors.values())
    last = sm.fit(members[2], train, progress=False)
    for name, tensor in last.tensors(torch.float64).items():
        assert torch.equal(tensors[name][2], tensor)
    assert (statistics[-1].weights, statistics[-1].note) == (last.weights, "as it is")
    assert len(load_members(tmp_path / "stats")) == 3
    with pytest.raises(IndexError):
        statistics[3]


def test_what_does_not_belong_together_is_refused(members: list[nn.Module], train: Tensor, tmp_path: Path) -> None:
    statistics = fit_members(members, train, tmp_path / "stats")
    with pytest.raises(StatisticsMismatchError, match="2 members but the statistics of 3"):
        match_members(members[:2], statistics)
    with pytest.raises(StatisticsMismatchError, match="not those that the statistics"):
        match_members(members[::-1], statistics)[0]
    with pytest.raises(InputError, match="once per member"):
        fit_members(members, iter([train]), tmp_path / "other")
    with pytest.raises(InputError, match="no members"):
        fit_members([], train, tmp_path / "other")
    other = nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.ReLU())
    with pytest.raises(StatisticsMismatchError, match="one architecture"):
        fit_members([*members, other], train, tmp_path / "other")
    assert not (tmp_path / "other").exists()
    sm.fit(members[0], train, progress=False).save(tmp_path / "one")
    with pytest.raises(FileFormatError, match="does not hold statistics of members"):
        load_members(tmp_path / "one")


MEMORY = """
from shiftmatch.matching import members
from shiftmatch.matching.average import average
from shiftmatch.samplers.posterior import Posterior

members.MAX_KEPT_BYTES = 0
network = nn.Sequential(nn.Linear(4000, 200), Probe(), nn.Linear(200, 4))
x = torch.randn(100, 4000)
posterior, statistics = Posterior.load(sys.argv[1]).models(network), members.load_members(sys.argv[2])
for _ in range(2):  # the second time counts; what is loaded once has been loaded
    Probe.peak, before = 0, used()
    average(members.match_members(posterior, statistics, prior_images=100))(x)
print(Probe.peak - before)
"""


@needs_proc
def test_twenty_matched_draws_take_at_most_half_more_memory_than_one(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Linear(4000, 200), nn.ReLU(), nn.Linear(200, 4))
    taken = {}
    for draws in (1, 20):
        posterior, statistics = tmp_path / f"{draws}.posterior", tmp_path / f"{draws}.statistics"
        Posterior.of([network.state_dict() for _ in range(draws)]).save(posterior)
        saved = Posterior.load(posterior).models(network)
        fit_members(saved, torch.randn(50, 4000), statistics, sites="0")
        taken[draws] = printed_memory(MEMORY, posterior, statistics)
    assert taken[1] > 3000, "one draw alone has three million bytes"
    assert taken[20] < 1.5 * taken[1], taken


def test_a_file_that_speaks_of_other_members_than_it_holds_is_refused(
    members: list[nn.Module], train: Tensor, tmp_path: Path
) -> None:
    fit_members(members, train, tmp_path / "stats")
    content = (tmp_path / "stats").read_bytes()
    assert content.count(b'\\"count\\": 3') == 1
    (tmp_path / "stats").write_bytes(content.replace(b'\\"count\\": 3', b'\\"count\\": 4'))
    with pytest.raises(FileFormatError, match="speaks of 4 members, but holds 3"):
        load_members(tmp_path / "stats")


def test_matched_members_are_sent_to_other_processes_without_what_was_built(
    members: list[nn.Module], train: Tensor, tmp_path: Path
) -> None:
    matched = match_members(members, fit_members(members, train, tmp_path / "stats"))
    before = len(pickle.dumps(matched))
    expected = average(matched)(train + 1)
    assert matched[0] is matched[0], "built once"
    sent = pickle.dumps(matched)
    assert len(sent) == before
    assert torch.equal(average(pickle.loads(sent))(train + 1), expected)
