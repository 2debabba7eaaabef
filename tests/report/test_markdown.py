from pathlib import Path

import pytest
from made_scores import counted, everything, first, table

from shiftmatch.errors import InputError
from shiftmatch.report.markdown import markdown_of, write_markdown

EXPECTED = """# a \\_title\\_

ours raises accuracy from 50.0\u00a0% to 65.0\u00a0% on set-c (100 images).

## set-c: accuracy

From 50.0\u00a0% to 65.0\u00a0%, 15.0\u00a0±\u00a04.7 points better than plain (p &lt; 0.001): \
mean over 2 corruptions at severity 5, 100 images in each of 2 cells. \
It gains most under fog at severity 5: +31.0\u00a0±\u00a09.3 points. \
It is worse within noise in 1 of 2 cells: snow at severity 5 (−1.0\u00a0±\u00a03.3 points).

± is half of a 95\u00a0% interval over test images. Differences are taken image by image (paired). Cells are tested \
one by one, without correction for their number.

| method | mean | against plain | p |
|---|---:|---:|---:|
| ours | 65.0 ± 7.6 | +15.0\u00a0±\u00a04.7 points | &lt; 0.001 |

accuracy, in %, severity 5:

| corruption | plain | ours |
|---|---:|---:|
| fog | 50.0 ± 9.6 | **81.0 ± 7.6** |
| snow | 50.0 ± 9.6 | 49.0 ± 9.6 |
| **mean** | 50.0 ± 9.8 | **65.0 ± 7.6** |
"""


def test_the_values_are_the_table() -> None:
    plain, ours = {"fog": first(50, 100), "snow": first(50, 100)}, {"fog": first(81, 100), "snow": first(49, 100)}
    text = markdown_of(counted({"plain": plain, "ours": ours}), title="a _title_", baseline="plain", method="ours")
    assert text.startswith(EXPECTED)
    assert "| data | set-c |" in text
    assert "<details><summary>How this was measured" in text


def test_without_intervals_it_says_so_and_nothing_is_bold() -> None:
    scores = table({"plain": {"fog": 0.5}, "ours": {"fog": 0.8}})
    text = markdown_of(scores, title="t", baseline="plain", method="ours")
    assert "No interval known" in text
    assert "| fog | 50.0 | 80.0 |" in text


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
