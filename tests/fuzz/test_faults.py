"""What the disk and other processes do to files that are being written: what has its name is whole, always."""

import errno
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import made_scores
import pytest
import torch

import shiftmatch as sm
from shiftmatch.evaluation.scores import Scores
from shiftmatch.utils.tensor_files import load_tensors

NETWORK = torch.nn.Linear(4, 3)
SAVED: dict[str, Callable[[Path], object]] = {
    "statistics": lambda path: sm.fit(NETWORK, torch.rand(32, 4), progress=False).save(path),
    "posterior": lambda path: sm.Posterior.of([NETWORK.state_dict()]).save(path),
    "scores": lambda path: made_scores.everything(n=20).save(path),
}
WRITER = """
    import sys, torch
    from pathlib import Path
    from shiftmatch.utils.tensor_files import save_tensors
    number, path = int(sys.argv[1]), Path(sys.argv[2])
    print("ready", flush=True)
    while True:
        save_tensors(path, {"x": torch.full((50_000,), float(number))}, kind="a test", version=1, header={"n": number})
"""


def _leftovers(folder: Path, path: Path) -> list[str]:
    return sorted(other.name for other in folder.iterdir() if other.stem != path.stem)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("kind", SAVED)
def test_a_full_or_broken_disk_leaves_the_old_file_and_nothing_else(
    kind: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "result.csv"
    SAVED[kind](path)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("shiftmatch.utils.files.os.fsync", full)
    with pytest.raises(OSError, match=os.strerror(code)):
        SAVED[kind](path)
    assert path.read_bytes() == before
    assert _leftovers(tmp_path, path) == []


@pytest.mark.parametrize("kind", SAVED)
def test_a_write_that_the_system_cuts_short_is_an_os_error(kind: str, tmp_path: Path) -> None:
    """The limit on the size of files stands for a disk that fills up in the middle of a tensor."""
    script = f"""
        import resource, signal, sys
        from pathlib import Path
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_faults import SAVED
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        try:
            SAVED[{kind!r}](Path(sys.argv[1]))
        except OSError as error:
            print(error.errno)
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "result.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == [str(errno.EFBIG)]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", SAVED)
def test_a_folder_that_cannot_be_written_is_told_and_nothing_changes(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(tmp_path))

    monkeypatch.setattr(Path, "touch", read_only)
    with pytest.raises(OSError, match="Read-only"):
        SAVED[kind](tmp_path / "result.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("a file where a folder is wanted")
    monkeypatch.setenv("SHIFTMATCH_DATA", str(tmp_path / "cache"))
    with pytest.raises(OSError, match="cache"):
        sm.data.get("mnist", progress=False)


def _start(number: int, path: Path) -> "subprocess.Popen[str]":
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(number), str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def _whole(path: Path) -> float:
    tensors, header = load_tensors(path, kind="a test", version=1)  # the checksum is compared too
    assert torch.all(tensors["x"] == header["n"])
    return float(header["n"])


@pytest.mark.slow
def test_two_processes_on_one_file_that_are_killed_leave_a_whole_one(tmp_path: Path) -> None:
    path, seen = tmp_path / "shared.safetensors", set()
    writers = [_start(number, path) for number in (1, 2)]
    try:
        end = time.monotonic() + 2
        while time.monotonic() < end:
            if path.exists():
                seen.add(_whole(path))
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    seen.add(_whole(path))
    assert seen == {1, 2}


def test_scores_that_lost_the_files_beside_them_are_read(tmp_path: Path) -> None:
    """A kill between the files of a table leaves some of them: the table is written last."""
    path = tmp_path / "scores.csv"
    made_scores.everything(n=20).save(path)
    path.with_suffix(".json").unlink()
    path.with_suffix(".safetensors").unlink()
    assert len(Scores.load(path)) == len(made_scores.everything(n=20))
