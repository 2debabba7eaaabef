import pytest
from made_scores import counted, everything, first, table

from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.grid import grid_of
from shiftmatch.report.sentences import headline, interval_note, losses, method_lines, scope, sentences
from shiftmatch.report.summary import PairedComparison, compare, find

PLAIN = {"clean": 0.915, "fog": 0.5, "snow": 0.75}
NBSP = "\u00a0"


def compared(scores: Scores, method: str = "ours") -> PairedComparison:
    found = compare(grid_of(scores, "set-c", "accuracy"), "plain", method)
    assert found is not None
    return found


def bare(ours: dict[str, float]) -> PairedComparison:
    return compared(table({"plain": PLAIN, "ours": ours}))


def out_of_hundred(plain: int, ours: int) -> PairedComparison:
    return compared(counted({"plain": {"fog": first(plain, 100)}, "ours": {"fog": first(ours, 100)}}))


def test_the_headline_says_how_many_images_and_whether_they_were_made_here() -> None:
    found = out_of_hundred(50, 80)
    assert headline(found) == f"ours raises accuracy from 50.0{NBSP}% to 80.0{NBSP}% on set-c (100 images)"
    assert headline(found, "corruptions made here").endswith("(100 images, corruptions made here)")
    assert headline(bare({"clean": 0.91, "fog": 0.8, "snow": 0.70})).endswith("on set-c"), "nobody knows how many"


def test_the_headline_calls_noise_noise() -> None:
    expected = f"ours and plain are within noise in accuracy: 51.0{NBSP}% and 50.0{NBSP}% on set-c (100 images)"
    assert headline(out_of_hundred(50, 51)) == expected
    assert "within noise" in sentences(out_of_hundred(50, 51))[0]


def test_numbers_in_sentences_add_up() -> None:
    """61.849 -> 82.751 differ by 20.902, but 61.8 and 82.8 by 21.0."""
    found = compared(table({"plain": {"fog": 0.61849}, "ours": {"fog": 0.82751}}))
    assert f"From 61.8{NBSP}% to 82.8{NBSP}%, 21.0 points better than plain" in sentences(found)[0]


def test_differences_have_intervals_and_p_values() -> None:
    said = sentences(out_of_hundred(50, 80))[0]
    assert f"30.0{NBSP}±{NBSP}9.3 points better than plain (p < 0.001)" in said
    assert said.endswith("fog at severity 5, 100 images.")
    assert "no interval known" in sentences(bare(PLAIN))[0]
    assert "paired" in interval_note(out_of_hundred(50, 80))
    assert "No interval known" in interval_note(bare(PLAIN))


def test_what_is_lost_is_named_cell_by_cell_worst_first() -> None:
    found = bare({"clean": 0.91, "fog": 0.499, "snow": 0.701})
    assert losses(found) == (
        "It loses to plain on clean images (−0.5 points) and in 2 of 2 cells: "
        "snow at severity 5 (−4.9 points), fog at severity 5 (−0.1 points)."
    )
    assert headline(found).startswith("ours lowers accuracy")
    assert "2.5 points worse than plain" in sentences(found)[0]
    assert "gains most" not in " ".join(sentences(found))


def test_losses_within_noise_are_told_apart() -> None:
    plain = {"clean": first(90, 100), "fog": first(50, 100), "snow": first(50, 100)}
    ours = {"clean": first(89, 100), "fog": first(20, 100), "snow": first(49, 100)}
    said = losses(compared(counted({"plain": plain, "ours": ours})))
    sure, noise = said.split(" It is worse within noise")
    assert sure.startswith("It loses to plain in 1 of 2 cells: fog at severity 5 (−30.0")
    assert noise.startswith(" on clean images (−1.0")
    assert "in 1 of 2 cells: snow at severity 5 (−1.0" in noise


def test_a_tie_is_no_loss() -> None:
    assert losses(bare(PLAIN)) == "It loses to plain nowhere: in none of 2 cells."
    assert "keeps accuracy" in headline(bare(PLAIN))
    assert "no better and no worse than plain" in sentences(bare(PLAIN))[0]


def test_the_highest_severity_is_told_apart() -> None:
    said = sentences(compared(everything(), "ShiftMatch"))
    assert f"At severity 5, from 48.3{NBSP}% to 68.3{NBSP}%, 20.0 points better than plain." in said


def test_every_method_has_a_line_with_its_difference_and_p_value() -> None:
    finding = find(everything(n=200))[0]
    lines = list(method_lines(finding))
    assert [line[0] for line in lines] == ["other", "ShiftMatch"]
    assert all("±" in mean and "±" in difference for _, mean, difference, _ in lines)
    assert {p for *_, p in lines} == {"< 0.001"}
    assert {p for *_, p in method_lines(find(everything())[0])} == {"not known"}


def test_the_spread_over_seeds_is_said() -> None:
    runs = [counted({"plain": {"fog": first(50, 100)}, "ours": {"fog": first(n, 100)}}, seed=n) for n in (70, 90)]
    assert "2 seeds from 70.0 to 90.0" in sentences(compared(runs[0] + runs[1]))[0]


@pytest.mark.parametrize(
    ("severities", "words"),
    [((5,), "severity 5"), ((1, 2), "severities 1 and 2"), ((1, 3, 5), "severities 1, 3 and 5"), ((2, 3, 4), "2 to 4")],
)
def test_the_scope_names_the_severities(severities: tuple[int, ...], words: str) -> None:
    found = compared(everything(severities=severities), "ShiftMatch")
    assert scope(found).startswith("mean over 3 corruptions at ")
    assert scope(found).endswith(words)
    assert scope(bare({"fog": 0.6})) == "fog at severity 5"
    assert scope(compared(table({"plain": {"clean": 0.5}, "ours": {"clean": 0.6}}))) == "clean images"
