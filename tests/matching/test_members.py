import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
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
import sys, torch
from pathlib import Path
from torch import nn
from shiftmatch.matching.average import average
import shiftmatch.matching.members as members
from shiftmatch.matching.members import load_members, match_members
members.MAX_KEPT_BYTES = 0
from shiftmatch.samplers.posterior import Posterior

def used():  # memory of this process's own, without the pages of files that the system may drop at any time
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["RssAnon"].split()[0])

class Probe(nn.ReLU):
    peak = 0
    def forward(self, x):
        Probe.peak = max(Probe.peak, used())
        return super().forward(x)

torch.set_num_threads(1)
network = nn.Sequential(nn.Linear(4000, 200), Probe(), nn.Linear(200, 4))
x = torch.randn(100, 4000)
posterior, statistics = Posterior.load(sys.argv[1]).models(network), load_members(sys.argv[2])
for _ in range(2):  # the second time counts; what is loaded once has been loaded
    Probe.peak, before = 0, used()
    average(match_members(posterior, statistics, prior_images=100))(x)
print(Probe.peak - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_twenty_matched_draws_take_at_most_half_more_memory_than_one(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Linear(4000, 200), nn.ReLU(), nn.Linear(200, 4))
    used = {}
    for draws in (1, 20):
        posterior, statistics = tmp_path / f"{draws}.posterior", tmp_path / f"{draws}.statistics"
        Posterior.of([network.state_dict() for _ in range(draws)]).save(posterior)
        saved = Posterior.load(posterior).models(network)
        fit_members(saved, torch.randn(50, 4000), statistics, sites="0")
        source = str(Path(__file__).parents[2] / "src")
        code = f"import sys; sys.path.insert(0, {source!r})\n{MEMORY}"
        # By default the C library keeps freed memory for later, which would be counted.
        environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
        command = [sys.executable, "-c", code, str(posterior), str(statistics)]
        result = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        used[draws] = int(result.stdout)
    assert used[1] > 3000, "one draw alone has three million bytes"
    assert used[20] < 1.5 * used[1], used
