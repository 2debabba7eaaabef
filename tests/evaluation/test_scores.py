from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftmatch.errors import FileFormatError, InputError
from shiftmatch.evaluation.scores import Key, Score, Scores, unpack_correct
from shiftmatch.metrics.uncertainty import mean_standard_error, paired_difference

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
    n=st.none() | st.integers(1, 50_000),
    stderr=st.none() | st.floats(0, allow_nan=False),
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


def table(*, cells: int = 3, images: int = 200, data: str = "cifar10-c") -> Scores:
    """Two methods on the same images, which differ in how hard they are, whatever the corruption."""
    draws, rows, correct = np.random.default_rng(images), [], {}
    hard = draws.random(images)
    for method, share in (("plain", 0.6), ("ours", 0.7)):
        for cell in range(cells):
            right = hard + 0.2 * draws.standard_normal(images) < share
            stderr = float((right.mean() * (1 - right.mean()) / images) ** 0.5)
            rows.append(Score(method, data, f"noise {cell}", 5, "accuracy", float(right.mean()), 0, images, stderr))
            correct[rows[-1].key] = right
    return Scores(rows, {"evaluation": {"images": images}}, correct)


def test_a_table_of_before_is_read_without_errors(tmp_path: Path) -> None:
    head = "method,data,corruption,severity,metric,value,seed"
    (tmp_path / "old.csv").write_text(f"{head}\nplain,cifar10-c,fog,5,accuracy,0.5,0\n")
    assert list(Scores.load(tmp_path / "old.csv")) == [score()]
    assert score().n is None
    assert Scores.load(tmp_path / "old.csv").means() == {("plain", "accuracy"): (0.5, None, None)}


def test_correctness_is_kept_in_a_file_beside(tmp_path: Path) -> None:
    made = table(images=203)
    made.save(tmp_path / "scores.csv")
    read = Scores.load(tmp_path / "scores.csv")
    assert list(read.correct) == list(made.correct)
    assert all(np.array_equal(read.correct[key], made.correct[key]) for key in made.correct)
    assert (tmp_path / "scores.safetensors").stat().st_size < 2000
    Scores(made.rows).save(tmp_path / "scores.csv")
    assert not Scores.load(tmp_path / "scores.csv").correct


def test_what_is_chosen_keeps_the_correctness_of_its_cells() -> None:
    chosen = table().where(method="ours", corruption=["noise 0", "noise 2"])
    assert [(key.method, key.corruption) for key in chosen.correct] == [("ours", "noise 0"), ("ours", "noise 2")]
    assert list(table()[:1].correct) == [Key("plain", "cifar10-c", "noise 0", 5, 0)]


def test_the_error_of_a_mean_is_that_of_the_images_not_of_the_cells() -> None:
    made = table()
    found = made.means()["ours", "accuracy"]
    right = [value for key, value in made.correct.items() if key.method == "ours"]
    assert found == pytest.approx((np.mean(right), mean_standard_error(right), 200))
    independent = sum((row.stderr or 0) ** 2 for row in made.where(method="ours")) ** 0.5 / 3
    bound = Scores(made.rows).means()["ours", "accuracy"].stderr
    assert found.stderr is not None
    assert bound is not None
    assert independent < found.stderr < bound
    assert bound == pytest.approx(np.mean([row.stderr or 0 for row in made.where(method="ours")]))


def test_errors_of_other_data_sets_are_independent() -> None:
    one, other = table(), table(images=50, data="mnist-c")
    both = (one + other).means()["ours", "accuracy"]
    parts = [made.means()["ours", "accuracy"].stderr or 0 for made in (one, other)]
    assert both.stderr == pytest.approx((parts[0] ** 2 + parts[1] ** 2) ** 0.5 / 2)
    assert both.n == 250
    found, halves = (one + other).difference("ours", "plain"), [m.difference("ours", "plain") for m in (one, other)]
    assert found is not None
    assert found.mean == pytest.approx(np.mean([half.mean for half in halves if half]))
    assert found.stderr == pytest.approx(sum(half.stderr**2 for half in halves if half) ** 0.5 / 2)


def test_methods_are_compared_image_by_image() -> None:
    made = table()
    ours, plain = (
        np.stack([right for key, right in made.correct.items() if key.method == method]) for method in ("ours", "plain")
    )
    assert made.difference("ours", "plain") == paired_difference(ours, plain)
    cell = made.where(corruption="noise 1")
    assert cell.difference("ours", "plain") == paired_difference(ours[1], plain[1])
    assert made.difference("ours", "theirs") is None
    assert Scores(made.rows).difference("ours", "plain") is None


def test_gains_are_those_of_each_severity_with_their_interval() -> None:
    made = table()
    found = made.gains("ours")
    assert [row["data"] for row in found] == [f"{data}, severity 5" for data in made.values("data")]
    expected = made.difference("ours", "plain")
    assert expected is not None
    low, high = map(float, found[0]["interval"].split(" to "))
    assert found[0]["gain"] == f"{100 * expected.mean:+.1f}"
    assert low <= float(found[0]["gain"]) <= high
    assert made.gains("theirs") == []


def test_how_both_parts_of_a_sum_were_made_is_kept() -> None:
    one, two, three = (Scores([score()], {"evaluation": {"batch": size}, "note": "x"}) for size in (1, 2, 3))
    total = one + two + two + three
    expected = {"evaluation": {"batch": 1}, "evaluation (2)": {"batch": 2}, "evaluation (3)": {"batch": 3}, "note": "x"}
    assert total.provenance == expected
    assert len(total) == 4
    assert len((table() + table(data="mnist-c")).correct) == 12


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "picture.csv").write_bytes(bytes(range(256)))
    with pytest.raises(FileFormatError, match="holds no scores"):
        Scores.load(tmp_path / "picture.csv")


def test_corruptions_of_one_severity_are_not_called_clean() -> None:
    values = {("plain", "clean"): 1.0, ("ours", "clean"): 1.0, ("plain", "fog"): 0.25, ("ours", "fog"): 0.75}
    made = [score(method, corruption, None, value) for (method, corruption), value in values.items()]
    correct = {row.key: np.arange(8) < 8 * row.value for row in made}
    assert [(row["data"], row["gain"]) for row in Scores(made, {}, correct).gains("ours")] == [
        ("cifar10-c, clean", "+0.0"),
        ("cifar10-c, corrupted", "+50.0"),
    ]


@pytest.mark.parametrize("name", ["scores.json", "scores.safetensors"])
def test_a_table_is_not_written_over_what_lies_beside_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"scores\.csv"):
        Scores([score()], {"seed": 0}).save(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "said"), [("{", "Expecting"), ("[3]", "it holds \\[3\\]"), ("[" * 100_000, "recursion")]
)
def test_a_damaged_note_of_how_scores_were_made_is_named(tmp_path: Path, text: str, said: str) -> None:
    Scores([score()], {"seed": 0}).save(tmp_path / "scores.csv")
    (tmp_path / "scores.json").write_text(text)
    with pytest.raises(
        FileFormatError, match=rf"scores\.json does not say how its scores were made.*{said}.*Remove it"
    ):
        Scores.load(tmp_path / "scores.csv")


def test_correctness_of_more_images_than_there_are_bits_is_refused() -> None:
    bits = np.packbits(np.array([True, False, True]))
    assert unpack_correct(bits, 3).tolist() == [True, False, True]
    for count in (9, -1):
        with pytest.raises(ValueError, match=f"{count} images in 1 bytes"):
            unpack_correct(bits, count)
