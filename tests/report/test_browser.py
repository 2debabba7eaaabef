import sys
import webbrowser
from pathlib import Path

import pytest

from shiftmatch.report.browser import open_in_browser


def test_a_page_is_opened_only_where_there_is_a_display(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def remember(address: str) -> bool:
        opened.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", remember)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert not open_in_browser(tmp_path / "page.html")
    monkeypatch.setenv("DISPLAY", ":0")
    assert open_in_browser(tmp_path / "page.html")
    assert opened == [(tmp_path / "page.html").as_uri()]
