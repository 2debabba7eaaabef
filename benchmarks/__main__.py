"""Every benchmark, or those named: python -m benchmarks matching fitting; make bench runs all.

Prints a table and writes the figures down. With --compare, nothing is measured: the last figures and the baseline are
shown side by side. With --baseline, the figures become the baseline, and the table in
docs/performance.md; subjects that are not named keep theirs.
"""

from pathlib import Path
from typing import Annotated

import typer
from benchmarks.harness import Settings, apart, comparison, load, markdown, measured, table
from rich.console import Console

from shiftmatch.utils.files import save_result

HERE = Path(__file__).parent
BASELINE, LATEST = HERE / "baseline.json", HERE / "latest.json"
PAGE, MARK = HERE.parent / "docs" / "performance.md", "<!-- from benchmarks/baseline.json -->"
SUBJECTS = [
    *("matching", "latency", "keeping", "large", "fitting", "scaling", "memory", "thousand", "precision"),
    *("agreement", "averaging", "gradients", "corruptions", "startup"),
]


def main(
    subjects: Annotated[list[str] | None, typer.Argument(help=f"Some of: {', '.join(SUBJECTS)}.")] = None,
    *,
    threads: Annotated[int, typer.Option(help="Of PyTorch.")] = Settings.threads,
    runs: Annotated[int, typer.Option(help="Alternating runs, of which the median counts.")] = Settings.runs,
    out: Annotated[Path, typer.Option(help="Where the figures are written.")] = LATEST,
    baseline: Annotated[bool, typer.Option("--baseline", help="Compare with these figures from now on.")] = False,
    compare: Annotated[bool, typer.Option("--compare", help="Show what has changed since the baseline.")] = False,
) -> None:
    """Measure speed and memory, as ratios where that can be."""
    if compare:
        Console().print(comparison(load(BASELINE), load(out)))
        return
    if unknown := set(subjects or ()) - set(SUBJECTS):
        raise typer.BadParameter(f"there is no {', '.join(sorted(unknown))}; choose some of {', '.join(SUBJECTS)}.")
    out = BASELINE if baseline else out
    found = load(BASELINE) if baseline and subjects else {}
    command = "python -m benchmarks --baseline" if baseline else " ".join(["python -m benchmarks", *(subjects or [])])
    settings = {"threads": threads, "runs": runs}
    for subject in subjects or SUBJECTS:
        found[subject] = apart(measured, subject, Settings(threads, runs))
        Console().print(table({subject: found[subject]}))
        save_result(out, command=command, settings=settings, result=found)
    if baseline:
        before, _, after = PAGE.read_text().split(MARK)
        PAGE.write_text(f"{before}{MARK}\n{markdown(found)}\n{MARK}{after}")


if __name__ == "__main__":
    typer.run(main)
