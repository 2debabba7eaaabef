from pathlib import Path

import pytest
from made_scores import everything, table

from shiftmatch.errors import DataNotFoundError, InputError
from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.sources import open_scores, pictures_beside


def saved(scores: Scores, path: Path) -> Path:
    scores.save(path)
    return path


def test_one_file_is_itself(tmp_path: Path) -> None:
    path = saved(everything(), tmp_path / "a.csv")
    assert list(open_scores([path])) == list(everything())
    assert open_scores([path, path]).provenance == everything().provenance


def test_several_files_are_merged_and_each_keeps_its_account(tmp_path: Path) -> None:
    one, two = everything(), everything(data="other")
    merged = open_scores([saved(one, tmp_path / "a.csv"), saved(two, tmp_path / "b.csv")])
    assert list(merged) == [*one, *two]
    assert merged.provenance == {"a": one.provenance, "b": two.provenance}


def test_a_row_that_two_files_share_counts_once_and_may_not_differ(tmp_path: Path) -> None:
    same = saved(table({"plain": {"fog": 0.5}}), tmp_path / "a.csv")
    again = saved(table({"plain": {"fog": 0.5, "snow": 0.6}}), tmp_path / "b.csv")
    assert len(open_scores([same, again])) == 2
    with pytest.raises(InputError, match=r"plain on set-c, fog, severity 5, accuracy, seed 0 is 0\.5 in one and 0\.4"):
        open_scores([same, saved(table({"plain": {"fog": 0.4}}), tmp_path / "c.csv")])


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match=r"no file .*nothing\.csv"):
        open_scores([tmp_path / "nothing.csv"])


def test_pictures_are_found_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "a.before-after.png").write_bytes(b"")
    assert pictures_beside([tmp_path / "a.csv", tmp_path / "b.csv"]) == [tmp_path / "a.before-after.png"]
