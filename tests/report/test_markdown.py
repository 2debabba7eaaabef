from pathlib import Path

import pytest
from made_scores import everything, table

from shiftmatch.errors import InputError
from shiftmatch.report.markdown import markdown_of, write_markdown

EXPECTED = """# a \\_title\\_

## set-c: accuracy

ours raises accuracy from 62.5\u00a0% to 75.0\u00a0% on set-c, 12.5 points better than plain: \
mean over 2 corruptions at severity 5. On clean images, from 90.0\u00a0% to 91.0\u00a0%, 1.0 points better. \
It gains most under fog at severity 5: +30.0 points.

It loses to plain in 1 of 2 cells: snow at severity 5 (−5.0 points).

accuracy, in %, severity 5:

| corruption | plain | ours |
|---|---:|---:|
| clean | 90.0 | **91.0** |
| fog | 50.0 | **80.0** |
| snow | **75.0** | 70.0 |
| **mean** | 62.5 | **75.0** |
"""


def test_the_values_are_the_table() -> None:
    scores = table(
        {"plain": {"clean": 0.9, "fog": 0.5, "snow": 0.75}, "ours": {"clean": 0.91, "fog": 0.8, "snow": 0.7}}
    )
    text = markdown_of(scores, title="a _title_", baseline="plain", method="ours")
    assert text.startswith(EXPECTED)
    assert "| data | set-c |" in text


def test_a_file_is_written(tmp_path: Path) -> None:
    write_markdown(everything(), tmp_path / "report.md")
    text = (tmp_path / "report.md").read_text()
    assert text.count("accuracy, in %, severity") == 3
    assert "| my own |" in text


def test_names_cannot_break_a_table() -> None:
    text = markdown_of(table({"a|b": {"x": 0.1}, "<i>": {"x": 0.2}}), title="t", baseline="a|b", method="<i>")
    assert "| corruption | a\\|b | &lt;i> |" in text


def test_without_the_baseline_it_says_what_there_is() -> None:
    with pytest.raises(InputError, match="they have 'ours'"):
        markdown_of(table({"ours": {"x": 0.1}}), title="t", baseline="plain", method="ours")
