"""Writing a corrupted data set in the published layout; it can go on after a kill at any moment."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from shiftmatch.corruptions import names
from shiftmatch.data.catalog import published
from shiftmatch.data.corrupted_files import ArrayFiles, CorruptedFiles, PictureFiles
from shiftmatch.data.inventory import Root
from shiftmatch.data.job import Job
from shiftmatch.data.layouts import layout_of
from shiftmatch.data.records import PROVENANCE
from shiftmatch.errors import InputError
from shiftmatch.utils.files import atomic_path, data_folder
from shiftmatch.utils.parallel import mapping
from shiftmatch.utils.progress import track


def write_corrupted(
    suite: str,
    out: str | os.PathLike[str] | None = None,
    *,
    data: str | None = None,
    corruptions: Sequence[str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    workers: int = 1,
    root: Root = None,
    show: bool = True,
) -> Path:
    """Write the corrupted test set of `data` in the layout of `suite`; a second call goes on where the first ended.

    Every finished file appears at once and whole; its bytes depend on neither the workers nor the interruptions.
    """
    layout, folder = layout_of(suite), data_folder(root)
    Job.forget()
    job = Job(suite, data or layout.clean, str(folder), seed, limit)
    chosen = check_corruptions(suite, corruptions)
    target = Path(out) if out is not None else folder / _home(job)
    files: CorruptedFiles = ArrayFiles(job, target) if layout.images else PictureFiles(job, target)
    missing = {name: files.missing(name) for name in chosen}  # tells mistakes before anything is written
    _claim(target, job)
    with mapping(workers) as run:
        for number, (name, pieces) in enumerate(missing.items(), 1):
            label = f"{name} ({number} of {len(chosen)})"
            for _ in track(run(files.make, pieces), label, total=len(pieces), show=show):
                pass
            files.finish(name)
    return target


def check_corruptions(suite: str, corruptions: Sequence[str] | None) -> tuple[str, ...]:
    """The corruptions asked for, or all that the suite has.

    >>> check_corruptions("cifar10-c", ["contrast"])
    ('contrast',)
    """
    known = names(suite)
    if unknown := sorted(set(corruptions or ()) - set(known)):
        raise InputError(f"{suite} has no corruption {unknown[0]!r}; it has {', '.join(known)}.")
    return tuple(corruptions or known)


def _home(job: Job) -> str:
    return published(job.suite).folder if job.data == job.layout.clean else f"{job.data}-c"


def _claim(target: Path, job: Job) -> None:
    """Mark the folder as this job's, so that no folder ever holds a mixture of two."""
    note, wanted = target / PROVENANCE, job.provenance()
    if note.exists():
        if (found := json.loads(note.read_text())) != wanted:
            raise InputError(f"{target} was begun as {found}, not {wanted}. Choose another folder or delete this one.")
        return
    if target.exists() and any(not path.name.startswith(".") for path in target.iterdir()):
        raise InputError(f"{target} holds files that shiftmatch did not write. Choose another folder.")
    with atomic_path(note) as path:
        path.write_text(json.dumps(wanted, indent=1))
