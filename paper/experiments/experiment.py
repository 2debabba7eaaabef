"""What an experiment is: a value with settings, a run that gives scores, plots and comparisons that read them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from matplotlib.figure import Figure

from shiftmatch.evaluation.scores import Scores

Root: TypeAlias = str | os.PathLike[str] | None
"""The data folder, or None for the usual one."""

Figures: TypeAlias = Mapping[str, Figure]
"""By what they show, which is part of the name of their files."""

LEFT_OUT = "left out"
"""In the provenance of scores: what could not be run on this machine -> why."""


class Comparison(NamedTuple):
    """Something that the paper says, what was found here, and whether that agrees; None where it cannot be judged."""

    what: str
    ours: str
    published: str
    agrees: bool | None


@runtime_checkable
class Experiment(Protocol):
    """One figure or table of the paper, at one size."""

    def run(self, data: Root, folder: Path) -> Scores:
        """Measure; what is finished is kept in `folder`, so that a killed run goes on where it was."""

    def plot(self, scores: Scores) -> Figures:
        """Draw what `run` has measured, without any network."""

    def compare(self, scores: Scores) -> list[Comparison]:
        """Hold it against what the paper says."""


@runtime_checkable
class Pictured(Protocol):
    """An experiment that has images to show."""

    def picture(self, data: Root) -> Figure:
        """Images before and after."""
