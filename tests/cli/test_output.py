import errno
import subprocess
import sys
from pathlib import Path

import pytest

from shiftmatch.cli.output import (
    WarnInWords,
    complain,
    explain,
    in_options,
    say,
    show,
    tell,
    tell_problems,
    writing,
)
from shiftmatch.data.image_set import Problems
from shiftmatch.errors import InputError, SmallBatchWarning


def test_advice_is_given_in_options() -> None:
    assert in_options("or pass prior_images=32 to match.") == "or pass --prior-images 32 to match."
    assert in_options('device="cpu", or batch_size=200.') == "--device cpu, or --batch-size 200."
    assert in_options('strength="auto"') == 'strength="auto"'  # no command has such an option
    assert in_options("x=3") == "x=3"
    assert in_options("Use shiftmatch.match(model, statistics, prior_images=32).") == "Use --prior-images 32."
    assert in_options("See shiftmatch.sites(model, example).") == "See shiftmatch sites."


def test_a_folder_is_no_file_to_write(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder; name a file"), writing(tmp_path):
        pass


@pytest.mark.parametrize("place", ["file/out.csv", "/proc/out.csv", "/proc/deep/out.csv"])
def test_what_cannot_be_written_is_found_out_at_once(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot be written .*Choose another place"), writing(tmp_path / place):
        pytest.fail("the work was begun")


def test_what_is_read_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "net.pt").write_text("weights")
    (tmp_path / "link.pt").symlink_to(tmp_path / "net.pt")
    with pytest.raises(InputError, match="would be written over"), writing(tmp_path / "link.pt", tmp_path / "net.pt"):
        pytest.fail("the work was begun")
    with writing(tmp_path / "new.stats", None, tmp_path / "net.pt", tmp_path / "nowhere"):
        pass


HOLD = """
import sys, pathlib
from shiftmatch.cli.output import writing
with writing(pathlib.Path(sys.argv[1])):
    print("begun", flush=True)
    sys.stdin.read()
"""


def test_two_processes_do_not_write_one_file(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out.csv"
    command = [sys.executable, "-c", HOLD, str(out)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PYTHONPATH": "src"}) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"begun\n"
        with pytest.raises(InputError, match="Another process is writing"), writing(out):
            pytest.fail("the work was begun")
        other.kill()
    with writing(out):  # a lock goes with its process, however that ends
        pass
    assert list(out.parent.iterdir()) == []


def test_failures_of_the_disk_come_with_what_to_do() -> None:
    assert "free some space" in explain(OSError(errno.ENOSPC, "No space left on device", "out.csv"))
    assert "Check the path" in explain(FileNotFoundError(errno.ENOENT, "No such file or directory", "in.pkl"))
    assert explain(OSError("odd")) == "odd."


def test_messages_are_one_colour(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    complain("named as module:function, 3 of 'x'")
    assert capsys.readouterr().err.count("\x1b[") == 2  # red, and its end


def test_problems_are_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    problems = Problems({f"{n}.png": "Is empty" for n in range(25)}, {"a.png": "was grey", "b.png": "was grey"})
    tell_problems(problems, ("three files were left out",), images=100)
    found = capsys.readouterr().err
    assert "note: was grey in 2 of 100 images, such as a.png." in found
    assert "note: three files were left out." in found
    assert "25 of 100 images were refused" in found
    assert "and 5 more" in found


def test_without_locks_of_the_system_a_file_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)  # as on Windows
    with writing(tmp_path / "out.csv") as out:
        out.write_text("done")
    assert [file.name for file in tmp_path.iterdir()] == ["out.csv"]


def test_a_lock_whose_file_goes_away_at_that_moment_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl", reason="Windows has no such locks")
    lock, flock, calls = tmp_path / ".out.csv.lock", fcntl.flock, 0

    def late(handle: int, how: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            lock.unlink()  # by the process that had it
        flock(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with writing(tmp_path / "out.csv"):
        assert calls == 2
        with pytest.raises(InputError, match="Another process is writing"), writing(tmp_path / "out.csv"):
            pytest.fail("the work was begun")
    assert list(tmp_path.iterdir()) == []


def test_notes_are_silenced_and_warnings_are_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHIFTMATCH_QUIET", "1")
    complain("a.png was grey", kind="note")
    say("done")
    show("[yellow]done[/]")
    tell("done", {"images": 3}, as_json=False)
    complain("few images", kind="warning")
    tell("done", {"images": 3}, as_json=True)
    assert capsys.readouterr() == ('{"images": 3}\n', "warning: few images\n")


def test_a_warning_is_told_once_by_its_words_and_small_batches_by_their_kind(
    capsys: pytest.CaptureFixture[str],
) -> None:
    warn = WarnInWords()
    for message, category in (
        ("first", UserWarning),
        ("first", UserWarning),
        ("second", UserWarning),
        ("20 images", SmallBatchWarning),
        ("21 images", SmallBatchWarning),
        ("old", DeprecationWarning),
    ):
        warn(message, category, "file.py", 3)
    said = capsys.readouterr().err.splitlines()
    assert said == ["warning: first", "warning: second", "warning: 20 images", "DeprecationWarning: old"]


def test_what_is_written_beside_the_result_is_never_written_over_an_input(tmp_path: Path) -> None:
    weights = tmp_path / "net.safetensors"
    weights.write_bytes(b"weights")
    (tmp_path / "link.safetensors").symlink_to(weights)
    for name in ("net", "link"):
        with (
            pytest.raises(InputError, match=f"{name}.safetensors is read by this command"),
            writing(tmp_path / f"{name}.csv", weights, None, beside=(".json", ".safetensors")),
        ):
            pass
    with writing(tmp_path / "scores.csv", weights, beside=(".json", ".safetensors")) as place:
        assert place == tmp_path / "scores.csv"
