"""Scores in, pictures and pages out."""

from shiftmatch.report.html import write_html
from shiftmatch.report.markdown import write_markdown

__all__ = ["write_html", "write_markdown"]
