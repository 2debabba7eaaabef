"""The page in a real browser: what scripts and style sheets do cannot be read off the text."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from chromium import Tab, chromium, needs_chromium
from made_scores import CORRUPTIONS, everything
from PIL import Image

from shiftmatch.demo.page import demo_page
from shiftmatch.report.html import write_html

pytestmark = needs_chromium
PHONE = 390
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(20, 23, 26)"
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
ROWS = """[...document.querySelectorAll('#view-1 tbody:not([hidden]) tr[data-corruption]:not([hidden])')]
    .map((row) => row.dataset.corruption)"""
HEADING = "document.querySelectorAll('#view-1 thead th')[1]"
MEAN = "document.querySelector('#view-1 tbody:not([hidden]) .mean')"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    picture = folder / "scores.before-after.png"
    Image.new("RGB", (320, 66)).save(picture)
    write_html(everything() + everything(data="second set"), folder / "page.html", pictures=[picture])
    return folder / "page.html"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    digits = torch.zeros(8, 1, 28, 28, dtype=torch.uint8)
    methods = ("HMC", "EmpCov", "ensemble", "test-time batchnorm", "ShiftMatch")
    page = tmp_path_factory.mktemp("demo") / "page.html"
    text = demo_page(
        accuracy={name: dict.fromkeys(methods, 0.7) for name in ("clean", "canny_edges", "mean")},
        pictures={"fog": (digits, digits)},
        shifts={"fog": {"input": 2.0, "conv1": 1.0}},
        baseline="HMC",
        method="ShiftMatch",
        mean="mean",
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
    only = tab.run("document.querySelector('#view-1 tbody:not([hidden]) tr:not([hidden]) td').textContent")
    assert only.startswith(tab.run(f"{MEAN}.cells[1].textContent"))
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
    assert tab.run(shown) == "50.0"
    assert tab.run("document.querySelectorAll('#view-1 tbody:not([hidden])').length") == 1


def test_one_view_at_a_time_is_chosen_by_select_or_link(tab: Tab, report: Path) -> None:
    tab.open(report)
    views = "[...document.querySelectorAll('.view:not([hidden])')].map((view) => view.id)"
    assert tab.run(views) == ["view-1"]
    choose(tab, "view", "view-6")
    tab.run("new Promise((done) => setTimeout(done))")
    assert tab.run(views) == ["view-6"]
    sections = "[...document.querySelectorAll('section[data-data]:not([hidden])')].map((part) => part.dataset.data)"
    assert set(tab.run(sections)) == {"second set"}
    tab.run("document.querySelector('.glance a[href=\"#view-2\"]').click()")
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
