from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftmatch.errors import FileFormatError, InputError
from shiftmatch.evaluation.scores import Score, Scores

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1)
rows = st.builds(
    Score,
    method=words,
    data=words,
    corruption=words,
    severity=st.none() | st.integers(1, 5),
    metric=words,
    value=st.floats(allow_nan=False),
    seed=st.integers(0, 2**32),
)


def score(method: str = "plain", corruption: str = "fog", severity: int | None = 5, value: float = 0.5) -> Score:
    return Score(method, "cifar10-c", corruption, severity, "accuracy", value, 0)


@given(st.lists(rows))
def test_a_file_gives_back_every_digit(tmp_path_factory: pytest.TempPathFactory, made: list[Score]) -> None:
    file = tmp_path_factory.mktemp("scores") / "scores.csv"
    Scores(made, {"seed": 0}).save(file)
    read = Scores.load(file)
    assert list(read) == made
    assert read.provenance == {"seed": 0}


def test_rows_are_chosen_by_their_fields() -> None:
    scores = Scores([score(severity=1), score(severity=5), score("ours", severity=5)])
    assert len(scores.where(severity=5)) == 2
    assert len(scores.where(severity=[1, 5], method="plain")) == 2
    assert scores.values("method") == ["plain", "ours"]


def test_means_are_of_what_is_not_named() -> None:
    scores = Scores([score(value=0.25), score(corruption="snow", value=0.75), score("ours", value=1.0)])
    assert scores.mean(by=("method",)) == {("plain",): 0.5, ("ours",): 1.0}


def test_a_field_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match="no field 'level'"):
        Scores([score()]).where(level=5)
    with pytest.raises(InputError, match="no field 'level'"):
        Scores([score()]).mean(by=("level",))


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n"])
def test_other_tables_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "other.csv").write_text(text)
    with pytest.raises(FileFormatError, match="holds no scores"):
        Scores.load(tmp_path / "other.csv")


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    Scores([score(), score()]).save(tmp_path / "scores.csv")
    text = (tmp_path / "scores.csv").read_text()
    (tmp_path / "scores.csv").write_text(text[: len(text) - 9])
    with pytest.raises(FileFormatError, match="Line 3"):
        Scores.load(tmp_path / "scores.csv")
