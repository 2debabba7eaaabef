"""Scores in, pictures and pages out; for these, install shiftmatch[report]."""

from pkgutil import resolve_name
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shiftmatch.report.figures import spectra
    from shiftmatch.report.html import write_html
    from shiftmatch.report.markdown import write_markdown

__all__ = ["spectra", "write_html", "write_markdown"]

_LAZY = {"spectra": "figures:spectra", "write_html": "html:write_html", "write_markdown": "markdown:write_markdown"}
"""Tables need no matplotlib, so that it is imported when a figure or a page is asked for."""


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'shiftmatch.report' has no attribute {name!r}")
    return resolve_name(f"shiftmatch.report.{_LAZY[name]}")
