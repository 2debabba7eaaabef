import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_scores import METHODS, counted, everything, first, table
from PIL import Image

from shiftmatch.errors import InputError
from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.report.grid import grid_of
from shiftmatch.report.html import HeatTable, page_of, write_html
from shiftmatch.report.measures import measure

NASTY = "</script><b onclick=x>\"'&"


def page(
    scores: Scores, *, pictures: tuple[Path, ...] = (), baseline: str = "plain", method: str = "ShiftMatch"
) -> str:
    return page_of(scores, title="a title", pictures=pictures, baseline=baseline, method=method)


def test_the_same_scores_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        write_html(everything(severities=(5,)), tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


@pytest.fixture(scope="module")
def whole() -> str:
    return page(everything())


@pytest.fixture(scope="module")
def counted_page() -> str:
    return page(everything(n=200).where(metric=["accuracy", "ece"]))


def test_every_score_is_shown_and_every_value_shown_is_a_score(whole: str) -> None:
    scores, text = everything(), whole
    accuracy = scores.where(metric="accuracy")
    for row in accuracy:
        assert f'data-value="{row.value}"' in text
    section = text[text.index('id="view-1"') : text.index('id="view-2"')]
    means = set(accuracy.mean(by=("method", "corruption")).values())
    over = [row for row in accuracy if row.corruption != "clean"]
    means |= set(Scores(over).mean(by=("method",)).values()) | set(
        Scores(over).mean(by=("method", "severity")).values()
    )
    found = re.findall(
        r'data-value="([^"]+)"[^>]*>(?:<span class="mark"[^>]*>↓</span>)?<span class="number">([^<]+)', section
    )
    assert len(found) >= len(accuracy)
    for shown, words in found:
        assert words == measure("accuracy").number(float(shown))
        assert any(float(shown) == pytest.approx(value) for value in {row.value for row in accuracy} | means)


def test_the_headline_and_the_losses_are_said(whole: str) -> None:
    text = unescape(whole)
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
    assert scripts.count == 2  # of the page itself


class Scripts(HTMLParser):
    """How many scripts a page has, as a browser reads it."""

    count = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.count += tag == "script"
        assert tag != "b" or not attrs or "onclick" not in dict(attrs)  # type: ignore[call-overload]


def test_sections_without_rows_are_left_out(whole: str) -> None:
    for part in ("As the corruption grows", "Confidence against accuracy", "features have moved"):
        assert part in whole
    bare = page(table({"plain": {"fog": 0.5}, "ShiftMatch": {"fog": 0.6}}))
    for part in ("As the corruption grows", "Confidence against accuracy", "features have moved", "Before and after"):
        assert part not in bare


def test_pictures_are_held_in_the_page(tmp_path: Path) -> None:
    picture = tmp_path / "scores.before-after.png"
    Image.new("RGB", (4, 4)).save(picture)
    text = page(table({"plain": {"fog": 0.5}, "ShiftMatch": {"fog": 0.6}}), pictures=(picture,))
    assert "Before and after" in text
    assert 'src="data:image/png;base64,' in text
    assert "<figcaption>scores</figcaption>" in text


def test_the_protocol_is_readable_and_folded_away(whole: str) -> None:
    text = whole
    assert text.index('<details class="facts"><summary>How this was measured') < text.index("settings: sizes")
    assert '<th scope="row">settings: sizes</th><td>1; 2</td>' in text
    assert '<th scope="row">command</th><td>made up</td>' in text


@pytest.mark.parametrize("severities", [(None,), (5,), (1, 5), (None, 2, 4)])
def test_any_severities_make_a_page(severities: tuple[int | None, ...]) -> None:
    assert "<h1>" in page(everything(severities=severities).where(metric="accuracy"))


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


def test_all_methods_are_in_the_table(whole: str) -> None:
    for method in METHODS:
        assert f'<th scope="col">{method}</th>' in whole


def test_every_cell_has_its_interval_and_a_note(counted_page: str) -> None:
    cells = re.findall(r'<td class="heat[^"]*"[^>]*title="([^"]*)">(.*?)</td>', counted_page)
    assert len(cells) == 2 * len(METHODS) * 4 * 5
    assert all("<small>±" in content and note.startswith("95\u00a0% interval") for note, content in cells)
    assert all("200 images" in note for note, _ in cells)


def test_every_method_is_compared_with_the_baseline(counted_page: str) -> None:
    assert "Every method against plain" in counted_page
    assert (
        '<th scope="row">other</th><td>73.7 ± 4.6</td><td>+8.7\u00a0±\u00a01.3 points</td><td>&lt; 0.001</td>'
        in counted_page
    )


def test_the_headline_has_the_sample_and_says_that_images_were_made_here(counted_page: str, whole: str) -> None:
    assert "on set-c (200 images, corruptions made here)</h1>" in counted_page
    assert "on set-c</h1>" in whole


def test_without_intervals_the_page_says_so_and_marks_no_winner(whole: str) -> None:
    assert "no interval known" in whole
    assert 'class="heat best' not in whole
    assert "±" not in whole.replace("`±${half}`", "")


def test_no_winner_is_marked_within_noise() -> None:
    for ours, best in ((52, 0), (80, 2)):  # a cell, and the mean
        right = {"plain": {"fog": first(50, 200), "snow": first(50, 200)}}
        right["ShiftMatch"] = {"fog": first(ours, 200), "snow": first(51, 200)}
        text = page(counted(right))
        assert text.count('class="heat best') == best
        assert ("within noise" in text[: text.index("</h1>")]) == (best == 0)


def test_the_best_values_have_the_strongest_colour() -> None:
    for metric, levels in (("accuracy", [0, 18, 45]), ("ece", [45, 27, 0])):
        grid = grid_of(table({"plain": {"a": 0.5, "b": 0.7, "c": 1.0}}, metric=metric), "set-c", metric)
        shown = HeatTable.of(grid, "plain")
        assert [shown.level(row.values["plain"]) for row in shown.blocks[0].rows] == levels
        assert shown.level(None) == 0
