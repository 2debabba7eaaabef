import re
from html.parser import HTMLParser

import torch
from made_scores import counted, first

from shiftmatch.demo.page import demo_page
from shiftmatch.evaluation.scores import Score, Scores

VOID = {"meta", "img", "link"}
NBSP = "\u00a0"


class Balance(HTMLParser):
    """Every element that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def page() -> str:
    digits = torch.zeros(2, 1, 28, 28, dtype=torch.uint8)
    scores = counted({"HMC": {"fog": first(50, 100)}, "<b>": {"fog": first(75, 100)}, "other": {"fog": first(90, 100)}})
    shifts = [
        Score("HMC", "set-c", "fog", 5, f"shift/{site}", value, 0) for site, value in (("input", 2.0), ("c", 1.0))
    ]
    pictures = {"fog": (digits, digits)}
    return demo_page(scores + Scores(shifts), pictures=pictures, baseline="HMC", method="<b>", note="a & b")


def test_the_page_is_whole_and_needs_nothing_else() -> None:
    text, checker = page(), Balance()
    checker.feed(text)
    assert checker.open == []
    assert not re.search(r"(src|href)=.?(https?:)?//|<script .*src|url\((?!#)", text)
    assert "data:image/png;base64," in text
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text


def test_numbers_are_shown_with_intervals_and_words_are_escaped() -> None:
    text = page()
    assert f"Corrupted digits: 50.0{NBSP}% right becomes 75.0{NBSP}% (100 images, corruptions made here)" in text
    assert '<span class="number">50.0</span><small>±9.6</small>' in text
    assert "75.0 ± 8.4" in text, "beside the bar"
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
    assert "a &amp; b" in text


def test_the_bar_in_colour_is_the_one_that_the_headline_speaks_of() -> None:
    """Not the best one: here, that is another."""
    bars = page().split('aria-label="accuracy of every method')[1].split("</svg>")[0]
    assert bars.count("fill: var(--c1)") == 1
    assert bars.count("fill: var(--c0)") == 2
    names = re.findall(r">(HMC|&lt;b&gt;|other)<", bars)
    fills = re.findall(r"fill: var\(--c(\d)\)", bars)
    assert dict(zip(names, fills, strict=True)) == {"HMC": "0", "&lt;b&gt;": "1", "other": "0"}
