"""Showing a page to whoever sits before the screen, if anybody does."""

import os
import sys
import webbrowser
from pathlib import Path


def open_in_browser(page: Path) -> bool:
    """Open a page if there is a display; say whether that was done."""
    return has_display() and webbrowser.open(page.resolve().as_uri())


def has_display() -> bool:
    """Whether a window can open. Without this question, a text browser might take over the terminal."""
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
