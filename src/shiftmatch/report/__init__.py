"""Scores in, pictures and pages out."""

from shiftmatch.report.figures import spectra
from shiftmatch.report.html import write_html
from shiftmatch.report.markdown import write_markdown

__all__ = ["spectra", "write_html", "write_markdown"]
