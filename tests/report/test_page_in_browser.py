"""The page in a real browser: what scripts and style sheets do cannot be read off the text."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from chromium import Tab, chromium, needs_chromium
from made_scores import CORRUPTIONS, counted, everything, first
from PIL import Image

from shiftmatch.demo.mnist import demo_page
from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.report.html import write_html

pytestmark = needs_chromium
PHONE = 390
DEMO_METHODS = ("HMC", "EmpCov", "ensemble", "test-time batchnorm", "ShiftMatch", "ShiftMatch (paper's structure)")
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(20, 23, 26)"
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
ROWS = """[...document.querySelectorAll('#view-1 .heat-map tbody:not([hidden]) tr[data-corruption]:not([hidden])')]
    .map((row) => row.dataset.corruption)"""
HEADING = "document.querySelectorAll('#view-1 .heat-map thead th')[1]"
MEAN = "document.querySelector('#view-1 tbody:not([hidden]) .mean')"


CONTRAST = """(() => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const rgb = (colours) => {
        canvas.clearRect(0, 0, 1, 1);
        for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const light = (colours) => rgb(colours).map((v) => v / 255)
        .map((v) => v <= .04 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
    const behind = (element) => {
        const found = [];
        for (let each = element; each; each = each.parentElement) found.unshift(getComputedStyle(each).backgroundColor);
        return found;
    };
    const poor = [];
    for (const element of document.querySelectorAll('td, th, p, small, b, figcaption, .mark, .plot text')) {
        if (!element.textContent.trim() || !element.getClientRects().length) continue;
        const style = getComputedStyle(element), back = behind(element);
        const own = style[element.closest('svg') ? 'fill' : 'color'];
        const [high, low] = [light(back), light([...back, own])].sort((a, b) => b - a);
        if ((high + .05) / (low + .05) < 4.5) poor.push([element.outerHTML.slice(0, 80), own, back.at(-1)]);
    }
    return poor.slice(0, 5);
})()"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    picture = folder / "scores.before-after.png"
    Image.new("RGB", (320, 66)).save(picture)
    scores = everything(n=100) + everything(data="second set")
    kept = [metric for metric in scores.values("metric") if metric not in ("log_likelihood", "confidence")]
    write_html(scores.where(metric=kept), folder / "page.html", pictures=[picture])
    return folder / "page.html"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    digits = torch.zeros(8, 1, 28, 28, dtype=torch.uint8)
    page = tmp_path_factory.mktemp("demo") / "page.html"
    cells = {name: first(70 + index, 100) for index, name in enumerate(("clean", "canny_edges", "fog"))}
    scores = counted(dict.fromkeys(DEMO_METHODS, cells), severity=None)
    shifts = [Score("HMC", "set-c", "fog", None, f"shift/{site}", 2.0, 0) for site in ("input", "conv1")]
    text = demo_page(
        scores + Scores(shifts),
        pictures={"fog": (digits, digits)},
        baseline="HMC",
        method="ShiftMatch",
        note="made up",
    )
    page.write_text(text, encoding="utf-8")
    return page


@pytest.fixture(params=["report", "demo"])
def page(request: pytest.FixtureRequest) -> Path:
    return Path(request.getfixturevalue(request.param))


def test_nothing_is_fetched_and_nobody_complains(tab: Tab, page: Path) -> None:
    tab.open(page)
    assert tab.complaints() == []
    assert page.as_uri() in tab.requests()
    assert all(address.startswith(("file:", "data:")) for address in tab.requests())


def test_nothing_overflows_on_a_phone(tab: Tab, page: Path) -> None:
    tab.open(page, width=PHONE, height=844)
    tab.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert tab.run("innerWidth") == PHONE
    assert tab.run("document.documentElement.scrollWidth") <= PHONE


def test_on_a_phone_every_column_of_a_table_can_be_seen(tab: Tab, page: Path) -> None:
    """The demo has six methods, and the last one is what it is about."""
    tab.open(page, width=PHONE, height=844)
    table = "document.querySelector('.view:not([hidden]) .heat-map') ?? document.querySelector('.heat-map')"
    box = f"({table}).closest('.scroll')"
    assert tab.run(f"{box}.scrollWidth <= {box}.clientWidth"), "nothing has to be scrolled to"
    rights = f"[...({table}).querySelectorAll('td, thead th')].map((cell) => cell.getBoundingClientRect().right)"
    assert max(tab.run(rights)) <= PHONE
    heading = f"[...({table}).querySelectorAll('thead th')].map((cell) => cell.scrollWidth <= cell.clientWidth)"
    assert all(tab.run(heading)), "no name is wider than its column"


def test_marks_do_not_overlap_numbers(tab: Tab, report: Path) -> None:
    for width in (PHONE, 1280):
        tab.open(report, width=width)
        tab.run("location.hash = 'view-3'")
        tab.run("new Promise((done) => setTimeout(done))")
        overlaps = """[...document.querySelectorAll('td .mark')].filter((mark) => mark.offsetParent).map((mark) => {
            const [one, other] = [mark, mark.nextElementSibling].map((part) => part.getBoundingClientRect());
            return one.right > other.left && one.bottom > other.top && one.top < other.bottom; })"""
        found = tab.run(overlaps)
        assert found
        assert not any(found)


def test_text_can_be_read_in_light_and_dark(tab: Tab, page: Path) -> None:
    """WCAG AA: a contrast of at least 4.5 against what is behind, for text in tables and in figures."""
    for dark in (False, True):
        tab.open(page, dark=dark)
        poor = tab.run(CONTRAST)
        assert poor == []


def test_dark_follows_the_reader_and_the_button_and_is_kept(tab: Tab, page: Path) -> None:
    tab.open(page)
    assert tab.run(BACKGROUND) == LIGHT
    tab.open(page, dark=True)
    assert tab.run(BACKGROUND) == DARK
    tab.run("document.getElementById('theme').click()")
    assert tab.run(BACKGROUND) == LIGHT
    tab.open(page, dark=True)
    assert tab.run(BACKGROUND) == LIGHT, "what the reader chose is kept"
    tab.run("localStorage.clear()")


def test_a_click_sorts_and_a_third_click_brings_the_order_back(tab: Tab, report: Path) -> None:
    tab.open(report)
    names = ["clean", *CORRUPTIONS]
    assert tab.run(ROWS) == names
    by_accuracy = ["clean", "my_own", "fog", "gaussian_noise"]
    for order, rows in (("descending", by_accuracy), ("ascending", by_accuracy[::-1]), ("none", names)):
        tab.run(f"{HEADING}.querySelector('button').click()")
        assert tab.run(f"{HEADING}.getAttribute('aria-sort')") == order
        assert tab.run(ROWS) == rows
        assert tab.run(f"{MEAN} === {MEAN}.parentNode.lastElementChild"), "the mean stays below"


def test_the_keyboard_sorts_too(tab: Tab, report: Path) -> None:
    tab.open(report)
    tab.run(f"{HEADING}.querySelector('button').focus()")
    tab.press("Enter", 13)
    assert tab.run(f"{HEADING}.getAttribute('aria-sort')") == "descending"


def choose(tab: Tab, control: str, value: str) -> None:
    tab.run(
        f"(() => {{ const control = document.getElementById('{control}'); control.value = '{value}';"
        "control.dispatchEvent(new Event('input')); control.dispatchEvent(new Event('change')); })()"
    )


def test_filters_hide_rows_and_the_mean_is_of_what_is_shown(tab: Tab, report: Path) -> None:
    tab.open(report)
    whole = tab.run(f"{MEAN}.cells[1].textContent")
    choose(tab, "text", "NOISE")
    assert tab.run(ROWS) == ["gaussian_noise"]
    assert tab.run("document.getElementById('shown').value") == "1 of 4 rows"
    mean = tab.run(f"{MEAN}.cells[1].textContent")
    assert mean == tab.run("document.querySelector('#view-1 tbody:not([hidden]) tr[data-group=noise] td').textContent")
    assert "±" in mean
    choose(tab, "text", "")
    choose(tab, "group", "weather")
    assert tab.run(ROWS) == ["fog"]
    choose(tab, "group", "")
    assert tab.run(ROWS) == ["clean", *CORRUPTIONS]
    assert tab.run(f"{MEAN}.cells[1].textContent") == whole


def test_the_severity_chooses_the_table(tab: Tab, report: Path) -> None:
    tab.open(report)
    choose(tab, "severity", "5")
    shown = "document.querySelector('#view-1 tbody:not([hidden]) tr[data-corruption=fog] td').textContent"
    assert tab.run(shown) == "50.0±9.6"
    assert tab.run("document.querySelectorAll('#view-1 .heat-map tbody:not([hidden])').length") == 1


def test_one_view_at_a_time_is_chosen_by_select_or_link(tab: Tab, report: Path) -> None:
    tab.open(report)
    views = "[...document.querySelectorAll('.view:not([hidden])')].map((view) => view.id)"
    assert tab.run(views) == ["view-1"]
    choose(tab, "view", "view-4")
    tab.run("new Promise((done) => setTimeout(done))")
    assert tab.run(views) == ["view-4"]
    sections = "[...document.querySelectorAll('section[data-data]:not([hidden])')].map((part) => part.dataset.data)"
    assert set(tab.run(sections)) == {"second set"}
    tab.run("document.querySelector('.lines a[href=\"#view-2\"]').click()")
    tab.run("new Promise((done) => setTimeout(done))")
    assert tab.run(views) == ["view-2"]
    assert tab.run("document.getElementById('view').value") == "view-2"


def test_without_scripts_everything_is_there(tab: Tab, report: Path) -> None:
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        tab.open(report)
        hidden = tab.run("document.querySelectorAll('.view[hidden], tbody[hidden], tr[hidden]').length")
        assert hidden == 0
        assert tab.run("getComputedStyle(document.querySelector('.controls')).display") == "none"
    finally:
        tab.call("Emulation.setScriptExecutionDisabled", value=False)


def test_on_paper_the_page_is_light_and_without_controls(tab: Tab, report: Path) -> None:
    tab.open(report, dark=True)
    tab.call("Emulation.setEmulatedMedia", media="print")
    assert tab.run(BACKGROUND) == LIGHT
    assert tab.run("getComputedStyle(document.querySelector('.controls')).display") == "none"
    assert tab.call("Page.printToPDF")["data"]
