"""Run an experiment by name: scores, figures, what the paper says beside it, and the table of docs/reproduce.md."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from matplotlib.figure import Figure
from rich.table import Table

from paper.claims import Claim, Verdict
from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.figures import save_figure
from shiftmatch.utils.files import atomic_path, data_folder

Root: TypeAlias = str | os.PathLike[str] | None
"""The data folder, or None for the usual one."""

Figures: TypeAlias = Mapping[str, Figure]
"""By what they show, which is part of the name of their files."""

LEFT_OUT = "left out"
"""In the provenance of scores: what could not be run on this machine -> why."""

RESULTS = Path(__file__).parent / "results"
SUFFIXES = (".svg", ".png")
COLOURS = {Verdict.AGREES: "green", Verdict.DIFFERS: "yellow", Verdict.CANNOT_TELL: "dim"}
BEGIN, END = "<!-- results: python -m paper table -->", "<!-- end of results -->"


@runtime_checkable
class Experiment(Protocol):
    """One figure or table of the paper, at one size; one with images to show also has `picture(data)`."""

    def run(self, data: Root, folder: Path) -> Scores:
        """Measure; what is finished is kept in `folder`, so that it resumes after an interruption."""

    def plot(self, scores: Scores) -> Figures:
        """Draw what `run` has measured, without any network."""

    def compare(self, scores: Scores) -> list[Claim]:
        """Hold it against what the paper says."""


@dataclass(frozen=True)
class Entry:
    """An experiment: its place in the paper, what that shows, and a value for each size."""

    place: str
    shows: str
    sizes: Mapping[str, Experiment]


@dataclass(frozen=True, eq=False)
class Reproduced:
    """What came out of an experiment, and the files that it is in."""

    name: str
    entry: Entry
    scores: Scores
    claims: Sequence[Claim]
    files: Sequence[Path]

    @property
    def left_out(self) -> Mapping[str, str]:
        """What could not be run on this machine, and why."""
        found: Mapping[str, str] = self.scores.provenance.get(LEFT_OUT, {})
        return found

    def table(self) -> Table:
        """Ours beside the published, for a terminal."""
        columns = ("the paper says", "published", "here", "95 % interval", "images", "")
        table = Table(*columns, title=f"{self.name}: {self.entry.place}", caption=counted(self.claims))
        for what, published, ours, interval, n, verdict in self.claims:
            shown = f"[{COLOURS[verdict]}]{verdict}[/]" if verdict in COLOURS else ""
            table.add_row(what, published, ours, interval, "" if n is None else f"{n:,}", shown)
        return table


def reproduce(name: str, entry: Entry, *, size: str = "small", out: Path = RESULTS, data: Root = None) -> Reproduced:
    """Run an experiment and write NAME.csv, NAME.json and its figures into `out`.

    What is finished is kept below the data folder, so that it resumes after an interruption.
    """
    experiment = entry.sizes[size]
    scores = experiment.run(data, data_folder(data) / "reproduce")
    claims = experiment.compare(scores)
    record = {"experiment": name, "place": entry.place, "command": f"python -m paper {name} --size {size}"}
    kept = record | dict(scores.provenance) | {"claims": [claim._asdict() for claim in claims]}
    scores = Scores(scores.rows, kept, scores.correct)
    scores.save(out / f"{name}.csv")
    figures = {f"{name}.{key}": figure for key, figure in experiment.plot(scores).items()}
    files = [out / f"{stem}{suffix}" for stem in figures for suffix in SUFFIXES]
    for file in files:
        save_figure(figures[file.stem], file)
    if picture := getattr(experiment, "picture", None):
        files.append(out / f"{name}.before-after.png")
        save_figure(picture(data), files[-1])
    return Reproduced(name, entry, scores, claims, [out / f"{name}.csv", out / f"{name}.json", *files])


def overview(experiments: Mapping[str, Entry]) -> Table:
    """Every experiment, for a terminal."""
    table = Table("name", "in the paper", "shows", title="The figures and tables of the paper")
    for name, entry in experiments.items():
        table.add_row(name, entry.place, entry.shows)
    table.caption = "small: what two cores can do · paper: the published settings. Run one with: python -m paper NAME"
    return table


def counted(claims: Sequence[Claim]) -> str:
    """How many claims have which verdict.

    >>> counted([Claim("a", "yes", "1", "", None, Verdict.AGREES)])
    '1 agrees, 0 differs beyond noise, 0 cannot tell'
    """
    verdicts = [claim.verdict for claim in claims]
    return ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in COLOURS)


def write_table(page: Path, results: Path = RESULTS) -> None:
    """Rewrite the part of a Markdown page between two comments from all results that know their claims."""
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    records = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(results.glob("*.json"))]
    sections = [_section(record) for record in records if "claims" in record]
    with atomic_path(page) as temporary:
        body = "\n".join([BEGIN, "", *sections, END])
        temporary.write_text(before + body + after, encoding="utf-8")


def _section(record: Mapping[str, Any]) -> str:
    """One experiment: what the paper says, published and here, with interval, number of images and verdict."""
    claims = [Claim(**claim | {"verdict": Verdict(claim["verdict"])}) for claim in record["claims"]]
    head = f"### `{record['experiment']}`: {record['place']}\n\n`{record['command']}`: {counted(claims)}."
    rows = ["| the paper says | published | here | 95 % interval | images | verdict |", "|---|---|---|---|---|---|"]
    for what, published, ours, interval, n, verdict in claims:
        rows.append(f"| {what} | {published} | {ours} | {interval} | {'' if n is None else f'{n:,}'} | {verdict} |")
    missing = [f"Left out: {name}." for name in record.get(LEFT_OUT, {})]
    return "\n".join([head, "", *rows, "", *([" ".join(missing), ""] if missing else [])])
