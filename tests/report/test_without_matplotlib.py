"""What works without the extra `report`, and what is said where it is needed."""

import sys
from pathlib import Path

import pytest
from made_scores import everything

import shiftmatch as sm
from shiftmatch.demo.mnist import Findings
from shiftmatch.errors import ShiftMatchError
from shiftmatch.report.markdown import means_table

NEEDED = "Pages and figures need matplotlib: pip install 'shiftmatch\\[report\\]'"


@pytest.fixture(autouse=True)
def without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in ("figures", "files", "html"):
        monkeypatch.delitem(sys.modules, f"shiftmatch.report.{name}", raising=False)
        monkeypatch.delattr(f"shiftmatch.report.{name}", raising=False)


def test_tables_and_markdown_need_no_matplotlib(tmp_path: Path) -> None:
    scores = everything()
    assert means_table(scores, "accuracy").row_count == len(scores.values("method"))
    sm.report.write_markdown(scores, tmp_path / "report.md", method=scores.values("method")[1])
    assert (tmp_path / "report.md").read_text().startswith("# shiftmatch report")


@pytest.mark.parametrize("name", ["write_html", "spectra"])
def test_pages_and_figures_say_what_to_install(name: str) -> None:
    with pytest.raises(ShiftMatchError, match=NEEDED):
        getattr(sm.report, name)


def test_the_demo_shows_its_table_before_it_says_what_the_page_needs() -> None:
    found = Findings({}, everything(severities=(None,)), {}, seconds=1.0)
    assert found.table().row_count
    with pytest.raises(ShiftMatchError, match=NEEDED):
        found.page()
