"""The harness that measures; what it measures is no test."""

import os
import sys
from pathlib import Path

import pytest
import torch
import typer

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import harness
from benchmarks.__main__ import BASELINE, MARK, PAGE, SUBJECTS, main
from benchmarks.harness import Cases, Settings, apart, child, compared, comparison, load, markdown, medians


def test_runs_take_turns_and_the_first_round_does_not_count() -> None:
    order: list[str] = []
    found = medians({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, repetitions=2)
    assert order == ["a", "b"] * 3
    assert found.keys() == {"a", "b"}


def test_the_median_is_of_the_counted_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0, 100, 100, 101, 101, 103, 103, 112])  # four runs: 100 (not counted), 1, 2, 9
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    assert medians({"a": lambda: None}, repetitions=3) == {"a": 2}


def test_a_child_has_the_threads_that_are_asked_for() -> None:
    assert child("import os; print(os.environ['OMP_NUM_THREADS'])", Settings(threads=1)) == "1"


def test_subjects_are_measured_in_processes_of_their_own() -> None:
    first, second = apart(os.getpid), apart(os.getpid)
    assert len({first, second, os.getpid()}) == 3


def test_the_peak_of_a_child_is_its_own() -> None:
    held = torch.ones(1 << 27)  # half a gigabyte, which getrusage would add to the child's
    code = "from benchmarks.memory import peak; print(peak())"
    assert float(child(code, Settings(threads=1))) < held.nbytes / 2**20


def test_figures_are_compared_by_name() -> None:
    before: dict[str, Cases] = {"a": {"case": {"x": 1.0, "old": 5.0}}}
    now: dict[str, Cases] = {"a": {"case": {"x": 1.5}}, "b": {"case": {"new": 2.0}}}
    assert compared(before, now) == [
        (("a", "case", "x"), 1.0, 1.5),
        (("a", "case", "old"), 5.0, None),
        (("b", "case", "new"), None, 2.0),
    ]
    assert list(comparison(before, now).columns[-1].cells) == ["+50 %", "", ""]


def test_every_subject_can_be_run_alone_and_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(harness.__file__).parent
    assert all((folder / f"{subject}.py").exists() for subject in SUBJECTS)
    monkeypatch.setattr("benchmarks.fitting.run", lambda settings: {"case": {"runs": float(settings.runs)}})
    monkeypatch.setattr("benchmarks.__main__.apart", lambda function, *args: function(*args))
    main(["fitting"], threads=1, runs=3, out=tmp_path / "figures.json")
    assert load(tmp_path / "figures.json") == {"fitting": {"case": {"runs": 3.0}}}
    assert "runs" in capsys.readouterr().out


def test_the_page_shows_the_committed_figures() -> None:
    assert PAGE.read_text().split(MARK)[1].strip() == markdown(load(BASELINE))


def test_subjects_that_do_not_exist_are_refused_by_name() -> None:
    with pytest.raises(typer.BadParameter, match="there is no nonsense; choose some of matching"):
        main(["matching", "nonsense"])
