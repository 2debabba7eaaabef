import gc
import pickle

import torch
from randomness import randn

from shiftmatch.core import goals
from shiftmatch.core.goals import goal_of
from shiftmatch.core.linalg import Ridge, sym_power
from shiftmatch.core.moments import Moments

CPU = torch.device("cpu")


def test_the_root_is_taken_once_for_each_ridge_and_method() -> None:
    train = Moments.of(randn(3, 4, 1, 50))
    goal = goal_of(train, Ridge(), CPU)
    assert torch.equal(goal.root, sym_power(train.covariance, 0.5, Ridge()))
    assert goal_of(train, Ridge(), CPU) is goal
    assert goal_of(train, Ridge(jitter=0.1), CPU) is not goal
    assert goal_of(train, Ridge(), CPU, "newton-schulz") is not goal


def test_other_moments_have_other_roots() -> None:
    a, b = Moments.of(randn(3, 4, 1, 50)), Moments.of(2 * randn(3, 4, 1, 50))
    assert torch.allclose(2 * goal_of(a, Ridge(), CPU).root, goal_of(b, Ridge(), CPU).root)


def test_goals_go_with_their_moments_and_into_no_file() -> None:
    train = Moments.of(randn(3, 4, 1, 50))
    plain = len(pickle.dumps(train))
    before = len(goals._GOALS)
    goal_of(train, Ridge(), CPU)
    assert len(pickle.dumps(train)) == plain
    assert len(goals._GOALS) == before + 1
    del train
    gc.collect()
    assert len(goals._GOALS) == before


def test_some_of_the_groups() -> None:
    goal = goal_of(Moments.of(randn(3, 4, 1, 50)), Ridge(), CPU)
    part = goal.of(slice(1, 3))
    assert torch.equal(part.root, goal.root[1:3])
    assert torch.equal(part.moments.mean, goal.moments.mean[1:3])
