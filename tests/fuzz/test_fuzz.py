"""A small run of the fuzzer over every reader; `make fuzz` is the long one."""

from pathlib import Path

import pytest
from fuzz.campaign import run
from fuzz.targets import TARGETS

CASES = 40


@pytest.mark.parametrize("name", TARGETS)
def test_a_damaged_file_is_read_or_refused_with_our_own_error(name: str, tmp_path: Path) -> None:
    outcome = run(name, tmp_path, cases=CASES)
    assert not outcome.failures, outcome.examples
    assert outcome.refused


@pytest.mark.parametrize("name", TARGETS)
def test_a_whole_file_is_read(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    run(name, tmp_path, cases=0)
    for content in target.seeds(tmp_path / "seeds"):
        (tmp_path / target.file).write_bytes(content)
        target.read(tmp_path / target.file)
