"""Run an experiment by name and write what it found: scores, figures, and how it compares with the paper."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from paper.experiments.experiment import LEFT_OUT, Comparison, Pictured, Root
from paper.experiments.registry import EXPERIMENTS, Entry, experiment_named
from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.figure_files import save_figure
from shiftmatch.utils.files import data_folder

SUFFIXES = (".svg", ".png")
VERDICTS = {True: "[green]agrees[/]", False: "[yellow]differs[/]", None: ""}


@dataclass(frozen=True, eq=False)
class Reproduced:
    """What came out of an experiment, and the files that it is in."""

    name: str
    entry: Entry
    scores: Scores
    comparisons: list[Comparison]
    files: list[Path]

    @property
    def left_out(self) -> Mapping[str, str]:
        """What could not be run on this machine, and why."""
        found: Mapping[str, str] = self.scores.provenance.get(LEFT_OUT, {})
        return found

    def table(self) -> Table:
        """Ours beside the published, for a terminal."""
        table = Table("the paper says", "published", "here", "", title=f"{self.name}: {self.entry.place}")
        for what, ours, published, agrees in self.comparisons:
            table.add_row(what, published, ours, VERDICTS[agrees])
        judged = [found.agrees for found in self.comparisons if found.agrees is not None]
        table.caption = f"{sum(judged)} of {len(judged)} agree"
        return table


def reproduce(name: str, *, size: str = "small", out: Path = Path("paper/results"), data: Root = None) -> Reproduced:
    """Run the experiment of that name and write NAME.csv, NAME.json and its figures into `out`.

    What is finished is kept below the data folder, so that a killed run goes on where it was.
    """
    entry = experiment_named(name)
    experiment = entry.at(size)
    scores = experiment.run(data, data_folder(data) / "reproduce")
    comparisons = experiment.compare(scores)
    record = {"experiment": name, "place": entry.place, "command": f"shiftmatch reproduce {name} --size {size}"}
    scores = Scores(scores.rows, record | dict(scores.provenance) | {"comparison": _listed(comparisons)})
    scores.save(out / f"{name}.csv")
    figures = {f"{name}.{key}": figure for key, figure in experiment.plot(scores).items()}
    files = [out / f"{stem}{suffix}" for stem in figures for suffix in SUFFIXES]
    for file in files:
        save_figure(figures[file.stem], file)
    if isinstance(experiment, Pictured):
        files.append(out / f"{name}.before-after.png")
        save_figure(experiment.picture(data), files[-1])
    return Reproduced(name, entry, scores, comparisons, [out / f"{name}.csv", out / f"{name}.json", *files])


def overview() -> Table:
    """Every experiment, for a terminal."""
    table = Table(
        "name", "in the paper", "shows", "small, on two cores (estimate)", title="The figures and tables of the paper"
    )
    for name, entry in EXPERIMENTS.items():
        table.add_row(name, entry.place, entry.shows, entry.cost)
    table.caption = (
        "small: what two cores can do · paper: the published settings. Run one with: shiftmatch reproduce NAME"
    )
    return table


def _listed(comparisons: list[Comparison]) -> list[dict[str, Any]]:
    return [found._asdict() for found in comparisons]
