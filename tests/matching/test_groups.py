"""Mixed batches: groups that look different are found, and matched apart."""

import pytest
import torch
from networks import InPlaceNet
from randomness import maps
from torch import Tensor

import shiftmatch as sm
from shiftmatch.core.distance import measure_fingerprint
from shiftmatch.matching.groups import find_groups


@pytest.fixture
def mixed() -> Tensor:
    """Every third image is dim."""
    x = maps(90, 3, 8, 8, seed=1)
    x[::3] /= 6
    return x


def test_groups_that_look_different_are_found(mixed: Tensor) -> None:
    train = measure_fingerprint(maps(400, 3, 8, 8))
    assert train is not None
    groups = find_groups(mixed, train)
    assert [group.tolist() for group in groups] == [
        [i for i in range(90) if i % 3 == 0],
        [i for i in range(90) if i % 3 != 0],
    ]
    four = torch.cat([mixed[::3], maps(60, 3, 8, 8, seed=2), 6 * maps(60, 3, 8, 8, seed=3)])
    assert [len(group) for group in find_groups(four, train)] == [30, 60, 60]


@pytest.mark.parametrize("scale", [1.0, 0.1, 0.0])
def test_a_homogeneous_batch_is_one_group(scale: float) -> None:
    train = measure_fingerprint(maps(400, 3, 8, 8))
    assert train is not None
    for seed in range(5):
        assert [len(group) for group in find_groups(scale * maps(100, 3, 8, 8, seed=seed), train)] == [100]
    for images in (0, 1, 23):
        assert len(find_groups(maps(images, 3, 8, 8), train)) == 1


def test_each_group_is_matched_by_itself(net: InPlaceNet, statistics: sm.Statistics, mixed: Tensor) -> None:
    robust = sm.match(net, statistics, strength="auto")
    dim = torch.arange(90) % 3 == 0
    found = robust(mixed)
    for part in (dim, ~dim):
        assert torch.equal(found[part], robust(mixed[part]))
    decision = robust.explain(mixed)
    assert [group.images for group in decision.groups] == [30, 60]
    assert sum(decision.weights.values()) == pytest.approx(1)
    assert "2 groups (30, 60), which are matched apart. Group 1: " in str(decision)


def test_inputs_by_keyword_and_other_sizes(net: InPlaceNet, statistics: sm.Statistics, mixed: Tensor) -> None:
    robust = sm.match(net, statistics, strength="auto")
    assert torch.equal(robust(x=mixed), robust(mixed))
    with pytest.warns(sm.errors.OtherSizeWarning):
        assert robust(maps(30, 3, 10, 10)).shape == (30, 5)


def test_images_that_are_not_finite_are_not_divided(mixed: Tensor) -> None:
    train = measure_fingerprint(maps(400, 3, 8, 8))
    assert train is not None
    mixed[5, 0, 0, 0] = float("nan")
    assert [group.tolist() for group in find_groups(mixed, train)] == [list(range(90))]
