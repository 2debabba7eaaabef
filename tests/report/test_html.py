import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_scores import METHODS, everything, table
from PIL import Image

from shiftmatch.errors import InputError
from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.report.html import page_of, write_html
from shiftmatch.report.measures import measure

NASTY = "</script><b onclick=x>\"'&"


def page(
    scores: Scores, *, pictures: tuple[Path, ...] = (), baseline: str = "plain", method: str = "ShiftMatch"
) -> str:
    return page_of(scores, title="a title", pictures=pictures, baseline=baseline, method=method)


def test_the_same_scores_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        write_html(everything(), tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_every_score_is_shown_and_every_value_shown_is_a_score() -> None:
    scores = everything()
    text = page(scores)
    accuracy = scores.where(metric="accuracy")
    for row in accuracy:
        assert f'data-value="{row.value}"' in text
    section = text[text.index('id="view-1"') : text.index('id="view-2"')]
    means = set(accuracy.mean(by=("method", "corruption")).values())
    over = [row for row in accuracy if row.corruption != "clean"]
    means |= set(Scores(over).mean(by=("method",)).values()) | set(
        Scores(over).mean(by=("method", "severity")).values()
    )
    for shown, words in re.findall(r'data-value="([^"]+)">([^<]+)', section):
        assert words == measure("accuracy").number(float(shown))
        assert any(float(shown) == pytest.approx(value) for value in {row.value for row in accuracy} | means)


def test_the_headline_and_the_losses_are_said() -> None:
    text = unescape(page(everything()))
    assert "<h1>ShiftMatch raises accuracy from" in text
    assert (
        "It loses to plain on clean images (−2.0 points) and in 1 of 9 cells: my own at severity 1 (−4.0 points)."
        in text
    )


def test_words_of_users_are_only_words() -> None:
    scores = table({"plain": {NASTY: 0.5, "fog": 0.4}, NASTY: {NASTY: 0.6, "fog": 0.3}})
    scores = Scores(scores.rows, {NASTY: NASTY})
    text = page_of(scores, title=NASTY, pictures=[], baseline="plain", method=NASTY)
    assert NASTY not in text
    assert "<b onclick" not in text
    scripts = Scripts()
    scripts.feed(text)
    assert scripts.count == 2


class Scripts(HTMLParser):
    """How many scripts a page has, as a browser reads it."""

    count = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.count += tag == "script"
        assert tag != "b" or not attrs or "onclick" not in dict(attrs)  # type: ignore[call-overload]


def test_sections_without_rows_are_left_out() -> None:
    whole = page(everything())
    for part in ("As the corruption grows", "Confidence against accuracy", "features have moved"):
        assert part in whole
    bare = page(table({"plain": {"fog": 0.5}, "ShiftMatch": {"fog": 0.6}}))
    for part in ("As the corruption grows", "Confidence against accuracy", "features have moved", "Before and after"):
        assert part not in bare


def test_pictures_are_held_in_the_page(tmp_path: Path) -> None:
    picture = tmp_path / "scores.before-after.png"
    Image.new("RGB", (4, 4)).save(picture)
    text = page(everything(), pictures=(picture,))
    assert "Before and after" in text
    assert 'src="data:image/png;base64,' in text
    assert "<figcaption>scores</figcaption>" in text


def test_the_protocol_is_readable() -> None:
    text = page(everything())
    assert '<th scope="row">settings: sizes</th><td>1; 2</td>' in text
    assert '<th scope="row">command</th><td>made up</td>' in text


@pytest.mark.parametrize("severities", [(None,), (5,), (1, 5), (None, 2, 4)])
def test_any_severities_make_a_page(severities: tuple[int | None, ...]) -> None:
    assert "<h1>" in page(everything(severities=severities))


def test_values_that_are_no_numbers_are_shown_as_such() -> None:
    scores = table(
        {"plain": {"fog": float("-inf"), "snow": -1.0}, "ShiftMatch": {"fog": -2.0}}, metric="log_likelihood"
    )
    text = page(Scores([*scores, Score("third", "set-c", "fog", 5, "log_likelihood", float("nan"), 0)]))
    assert "−∞" in text
    assert not re.search(r"[:\"](nan|-?inf)", text)
    assert ">–<" in text


def test_what_cannot_be_compared_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(InputError, match="no scores to report"):
        page(Scores([]))
    with pytest.raises(InputError, match="no method 'mine' to take as the method; they have 'plain', 'other'"):
        page(everything(), method="mine")
    with pytest.raises(InputError, match="--baseline on the command line"):
        page(everything(), baseline="none")
    with pytest.raises(InputError, match="two different"):
        page(everything(), baseline="ShiftMatch")
    apart = Scores([*table({"plain": {"fog": 0.5}}), *table({"ShiftMatch": {"fog": 0.5}}, metric="brier")])
    with pytest.raises(InputError, match="never measured by the same metric"):
        page(apart)


def test_all_methods_are_in_the_table() -> None:
    text = page(everything())
    for method in METHODS:
        assert f'<th scope="col">{method}</th>' in text
