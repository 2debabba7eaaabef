import re
from html.parser import HTMLParser

import torch

from shiftmatch.demo.page import demo_page

VOID = {"meta", "img", "link"}


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
    accuracy = {name: {"HMC": 0.7, "<b>": 0.75} for name in ("clean", "mean")}
    return demo_page(
        accuracy=accuracy,
        pictures={"fog": (digits, digits)},
        shifts={"fog": {"input": 2.0, "conv1": 1.0}},
        baseline="HMC",
        method="<b>",
        mean="mean",
        note="a & b",
    )


def test_the_page_is_whole_and_needs_nothing_else() -> None:
    text, checker = page(), Balance()
    checker.feed(text)
    assert checker.open == []
    assert not re.search(r"(src|href)=.?(https?:)?//|<script .*src|url\(", text)
    assert "data:image/png;base64," in text
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text


def test_numbers_are_shown_and_words_are_escaped() -> None:
    text = page()
    assert "70.0" in text
    assert "75.0" in text
    assert "&lt;b&gt;" in text
    assert "a &amp; b" in text
    assert "$" not in text
    assert 'width:50.0%"' in text, "the shift of half the size has half the length"
