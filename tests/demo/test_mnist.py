"""Figure 3 of the paper in small: six methods on MNIST-C, with what ships with the package."""

import re
from html.parser import HTMLParser

import pytest
import torch
from made_scores import counted, first

from shiftmatch.corruptions.registry import names
from shiftmatch.demo.mnist import MEAN, OURS, PAPER, PLAIN, Findings, MnistDemo, demo_page
from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.report.measures import layer_shifts


@pytest.fixture(scope="module")
def findings() -> Findings:
    return MnistDemo(images=500, draws=2).run(show=False)


def test_the_table_is_complete(findings: Findings) -> None:
    assert list(findings.accuracy) == ["clean", *names("mnist-c"), MEAN]
    means = findings.accuracy[MEAN]
    for method, mean in means.items():
        each = [findings.accuracy[name][method] for name in names("mnist-c")]
        assert mean == pytest.approx(sum(each) / 15)
    assert findings.table().row_count == 17


def test_matching_beats_plain_hmc_by_five_points_and_the_prior_made_for_it(findings: Findings) -> None:
    """So does the paper's structure, by less."""
    means = findings.accuracy[MEAN]
    assert means[OURS] > means[PAPER] > means[PLAIN] + 0.05
    assert means[OURS] > means[PLAIN] + 0.05
    assert means[OURS] > means["EmpCov"] + 0.05


def test_every_accuracy_has_an_interval_and_is_known_digit_by_digit(findings: Findings) -> None:
    rows = findings.scores.where(metric="accuracy")
    assert all(row.n == 500 and row.stderr for row in rows)
    assert {row.key for row in rows} == set(findings.scores.correct)
    assert all("±" in str(cell) for column in findings.table().columns[1:] for cell in column.cells)


def test_clean_digits_stay_where_they_were(findings: Findings) -> None:
    assert findings.accuracy["clean"][OURS] > findings.accuracy["clean"][PLAIN] - 0.02
    shift = layer_shifts(findings.scores)
    assert max(shift["clean"].values()) < 0.3
    assert shift["fog"]["input"] > 1
    before, after = findings.pictures["clean"]
    assert (before.float() - after.float()).abs().mean() < 8


def test_the_page_has_everything(findings: Findings) -> None:
    page = findings.page()
    assert all(name.replace("_", " ") in page for name in findings.accuracy)
    assert page.count("<img") == len(findings.pictures)
    assert len(page) < 300_000


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
