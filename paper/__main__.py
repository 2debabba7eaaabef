"""`python -m paper`: the figures and tables of the paper, from a clone.

python -m paper list                                   # what there is
python -m paper fig4 --out results                     # one of them, at the size small
nice -n 19 python -m paper all                         # all; the same command resumes after an interruption
python -m paper table                                  # rewrite the tables of docs/reproduce.md and docs/choose.md
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from paper import choosing, registry, run
from shiftmatch.errors import ShiftMatchError

PAGE = Path(__file__).parents[1] / "docs" / "reproduce.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; 1 if something could not be run."""
    parser = argparse.ArgumentParser(
        prog="python -m paper", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", help="list, table, all, or a name from the list, such as fig1")
    parser.add_argument("--size", choices=registry.SIZES, default="small", help="small: two cores; paper: as published")
    parser.add_argument("--out", type=Path, default=run.RESULTS, help="the folder for scores and figures")
    parser.add_argument("--root", help="data folder; default: $SHIFTMATCH_DATA, else the user's cache")
    given = parser.parse_args(arguments)
    console = Console()
    match given.name:
        case "list":
            console.print(run.overview(registry.EXPERIMENTS))
        case "table":
            run.write_table(PAGE, given.out)
            choosing.write_tables(PAGE.with_name("choose.md"), given.out)
        case _:
            names = list(registry.EXPERIMENTS) if given.name == "all" else [given.name]
            return max([_run(name, given, console) for name in names])
    return 0


def _run(name: str, given: argparse.Namespace, console: Console) -> int:
    """One experiment; what it cannot do without is said, and the next one is run."""
    try:
        entry = registry.experiment_named(name)
        found = run.reproduce(name, entry, size=given.size, out=given.out, data=given.root)
    except ShiftMatchError as error:
        print(f"{name} could not be run: {error}", file=sys.stderr)
        return 1
    console.print(found.table())
    for method, reason in found.left_out.items():
        print(f"Left out: {method}. {reason}")
    print(f"Scores and {len(found.files) - 2} figures are in {given.out.resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
