"""python -m tests.fuzz [--cases 6000] [--seed 0] [--target NAME] [--out FILE]: damage files, read them, count.

Every target has a process of its own, with bounded memory: a crash of one is found out, and does not end the others.
"""

import argparse
import json
import resource
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from fuzz.campaign import run
from fuzz.targets import TARGETS

from shiftmatch.utils.files import save_result

MEMORY = 3 << 30
"""Bytes that a reader may take beyond what is taken at the beginning."""
FAILING = Path("out/fuzz")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=6_000, help="for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", choices=TARGETS)
    parser.add_argument("--out", type=Path, help="write the counts to this JSON file")
    arguments = parser.parse_args()
    if arguments.target:
        print(json.dumps(_one(arguments.target, arguments.cases, arguments.seed)))
        return 0
    counts = {name: _apart(name, arguments.cases, arguments.seed) for name in TARGETS}
    total = len(counts) * arguments.cases
    failed = {name: count for name, count in counts.items() if count.get("failures") or "died" in count}
    print(f"{total:,} cases, failures in {len(failed)} of {len(counts)} readers")
    if arguments.out:
        command = f"python -m tests.fuzz --cases {arguments.cases} --seed {arguments.seed}"
        save_result(arguments.out, command=command, settings={"cases": total}, result=counts)
    return 1 if failed else 0


def _one(name: str, cases: int, seed: int) -> dict[str, object]:
    torch.set_num_threads(1)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
    shared = Path("/dev/shm")
    with TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        return asdict(run(name, Path(folder), cases=cases, seed=seed, failing=FAILING))


def _apart(name: str, cases: int, seed: int) -> dict[str, object]:
    command = [sys.executable, "-m", "tests.fuzz", "--target", name, "--cases", str(cases), "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found: dict[str, object] = (
        json.loads(done.stdout.splitlines()[-1])
        if done.returncode == 0
        else {"died": done.returncode, "last words": done.stderr[-2000:]}
    )
    print(f"{name:24s} { ({**found, 'last words': '...'} if 'died' in found else found) }", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
