"""Where features are moved to: training moments, with the root that every batch needs and that never changes."""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch

from shiftmatch.core.linalg import Ridge, RootMethod, Sym, sym_power
from shiftmatch.core.moments import Moments


@dataclass(frozen=True, eq=False)
class Goal:
    """Training moments and Σ_train^{1/2}, on the device of the features."""

    moments: Moments
    root: Sym

    def of(self, groups: slice) -> "Goal":
        return Goal(self.moments.of_groups(groups), self.root[groups])


_GOALS: WeakKeyDictionary[Moments, dict[tuple[Ridge, torch.device, RootMethod], Goal]] = WeakKeyDictionary()


def goal_of(train: Moments, ridge: Ridge, device: torch.device, method: RootMethod = "auto") -> Goal:
    """The goal that moments state. Its root is taken once, and forgotten with the moments; no file or copy holds it.

    >>> train = Moments.of(torch.tensor([[[[-2.0, 2.0]]]]))
    >>> goal_of(train, Ridge(), torch.device("cpu")).root.item()
    2.0
    >>> goal_of(train, Ridge(), torch.device("cpu")) is goal_of(train, Ridge(), torch.device("cpu"))
    True
    """
    known, key = _GOALS.setdefault(train, {}), (ridge, device, method)
    if key not in known:
        here = train.to(device)
        known[key] = Goal(here, sym_power(here.covariance, 0.5, ridge, method))
    return known[key]
