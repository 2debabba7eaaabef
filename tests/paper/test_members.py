"""Answers of members are computed once for the same network and images."""

from pathlib import Path

import pytest
import torch
from paper.members import kept
from torch import nn

from shiftmatch.matching.average import average


def test_answers_are_those_of_the_network_and_are_not_computed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    networks = [nn.Sequential(nn.Flatten(), nn.Linear(12, 5)) for _ in range(2)]
    x, other = torch.randn(4, 3, 2, 2), torch.randn(4, 3, 2, 2)
    expected = average(networks)(x)
    torch.testing.assert_close(average(kept(networks, tmp_path))(x), expected)
    assert len(list(tmp_path.iterdir())) == 2
    monkeypatch.setattr(nn.Linear, "forward", lambda *_: pytest.fail("computed again"))
    torch.testing.assert_close(average(kept(networks, tmp_path))(x), expected)
    assert kept(networks[:1], tmp_path)[0](x).shape == (4, 5)  # the first member by itself is the same network
    with pytest.raises(pytest.fail.Exception, match="computed again"):
        kept(networks, tmp_path)[0](other)


def test_another_weight_is_another_answer(tmp_path: Path) -> None:
    network, x = nn.Linear(3, 2), torch.ones(1, 3)[:, :, None, None]
    flat = nn.Sequential(nn.Flatten(), network)
    before = kept([flat], tmp_path)[0](x)
    with torch.no_grad():
        network.bias[0] += 1
    assert not torch.equal(kept([flat], tmp_path)[0](x), before)
