"""Run damaged files through a reader, and keep every case that ends in anything but a result or our own error."""

import faulthandler
import random
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.targets import TARGETS

from shiftmatch.errors import ShiftMatchError

HANG_SECONDS = 20
"""Of the processor, so that a busy machine is not taken for a reader that hangs."""


class HangError(BaseException):
    """A reader did not come to an end. No `except Exception` may take it for a damaged file."""


@dataclass
class Outcome:
    """How many files were read and refused; the others by what they raised, with the first such case of each."""

    read: int = 0
    refused: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    examples: dict[str, tuple[int, str]] = field(default_factory=dict)
    seconds: float = 0.0
    slowest: float = 0.0
    """Seconds that the longest case took."""
    memory: int = 0
    """Megabytes by which the process grew at most."""


def run(name: str, folder: Path, *, cases: int, seed: int = 0, failing: Path | None = None) -> Outcome:
    """Damage the files of one target `cases` times; failing cases are kept in the folder `failing`.

    A case is known by its number: (name, seed, number) makes the same file again.
    """
    target, outcome, start = TARGETS[name], Outcome(), time.monotonic()
    path = prepare(name, folder)
    seeds = target.seeds(folder / "seeds")
    faulthandler.enable()
    before = _peak_memory()
    with warnings.catch_warnings(), _alarm():
        warnings.simplefilter("ignore")
        for number in range(cases):
            rng = random.Random(f"{name} {seed} {number}")
            path.write_bytes(target.mutate(rng.choice(seeds), rng))
            signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS)
            begun = time.monotonic()
            try:
                target.read(path)
            except ShiftMatchError:
                outcome.refused += 1
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                _note(outcome, number, error)
                if failing is not None:
                    failing.mkdir(parents=True, exist_ok=True)
                    (failing / f"{name.replace(' ', '_')}-{seed}-{number}").write_bytes(path.read_bytes())
            else:
                outcome.read += 1
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            outcome.slowest = max(outcome.slowest, round(time.monotonic() - begun, 2))
    outcome.memory = _peak_memory() - before
    outcome.seconds = round(time.monotonic() - start, 1)
    return outcome


def _peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def prepare(name: str, folder: Path) -> Path:
    """Write the whole files that a reader needs beside the damaged one; return the path of that."""
    (folder / "seeds").mkdir(parents=True, exist_ok=True)
    target = TARGETS[name]
    family = [other for other in TARGETS.values() if other.read is target.read]
    for other in family:
        path = folder / other.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(other.seeds(folder / "seeds")[0])
    return folder / target.file


def _note(outcome: Outcome, number: int, error: BaseException) -> None:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "shiftmatch" in frame.filename]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
    key = f"{type(error).__name__} at {place}"
    outcome.failures[key] = outcome.failures.get(key, 0) + 1
    outcome.examples.setdefault(key, (number, str(error)[:200]))


@contextmanager
def _alarm() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise HangError(f"no end after {HANG_SECONDS} s")

    before = signal.signal(signal.SIGPROF, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGPROF, before)
