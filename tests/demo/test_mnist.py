"""Figure 3 of the paper in small: six ways to meet MNIST-C, with what ships with the package."""

import pytest

from shiftmatch.corruptions.registry import names
from shiftmatch.demo.mnist import MEAN, OURS, PAPER, PLAIN, Findings, MnistDemo
from shiftmatch.report.series import layer_shifts


@pytest.fixture(scope="module")
def findings() -> Findings:
    return MnistDemo(images=500, draws=2).run(show=False)


def test_the_table_is_complete(findings: Findings) -> None:
    assert list(findings.accuracy) == ["clean", *names("mnist-c"), MEAN]
    means = findings.accuracy[MEAN]
    for method, mean in means.items():
        each = [findings.accuracy[name][method] for name in names("mnist-c")]
        assert mean == pytest.approx(sum(each) / 15)
    assert findings.table().row_count == 17


def test_matching_beats_plain_hmc_by_five_points_and_the_prior_made_for_it(findings: Findings) -> None:
    """So does the paper's structure, by less."""
    means = findings.accuracy[MEAN]
    assert means[OURS] > means[PAPER] > means[PLAIN] + 0.05
    assert means[OURS] > means[PLAIN] + 0.05
    assert means[OURS] > means["EmpCov"] + 0.05


def test_every_accuracy_has_an_interval_and_is_known_digit_by_digit(findings: Findings) -> None:
    rows = findings.scores.where(metric="accuracy")
    assert all(row.n == 500 and row.stderr for row in rows)
    assert {row.key for row in rows} == set(findings.scores.correct)
    assert all("±" in str(cell) for column in findings.table().columns[1:] for cell in column.cells)


def test_clean_digits_stay_where_they_were(findings: Findings) -> None:
    assert findings.accuracy["clean"][OURS] > findings.accuracy["clean"][PLAIN] - 0.02
    shift = layer_shifts(findings.scores)
    assert max(shift["clean"].values()) < 0.3
    assert shift["fog"]["input"] > 1
    before, after = findings.pictures["clean"]
    assert (before.float() - after.float()).abs().mean() < 8


def test_the_page_has_everything(findings: Findings) -> None:
    page = findings.page()
    assert all(name.replace("_", " ") in page for name in findings.accuracy)
    assert page.count("<img") == len(findings.pictures)
    assert len(page) < 300_000
