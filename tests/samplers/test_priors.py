import pytest
import torch
from torch.distributions import Distribution, Laplace, Normal, StudentT

from shiftmatch.errors import InputError
from shiftmatch.samplers.priors import Prior, correlated, gaussian, laplace, product, student_t


@pytest.mark.parametrize(
    ("prior", "distribution"),
    [
        (gaussian(100.0), Normal(0.0, 0.1)),
        (laplace(0.3), Laplace(0.0, 0.3)),
        (student_t(5.0, 0.3), StudentT(5.0, 0.0, 0.3)),
    ],
    ids=["gaussian", "laplace", "student-t"],
)
def test_densities_are_the_known_ones_up_to_a_constant(prior: Prior, distribution: Distribution) -> None:
    one, other = torch.randn(2, 7, dtype=torch.float64)
    expected = distribution.log_prob(one).sum() - distribution.log_prob(other).sum()
    torch.testing.assert_close(prior({"w": one}) - prior({"w": other}), expected)


def test_skipped_parameters_are_free() -> None:
    params = {"w": torch.ones(2), "b": torch.ones(3)}
    assert gaussian(2.0, skip=("w",))(params) == -3
    assert gaussian(2.0, skip=("w", "b"))(params) == 0


def test_a_correlated_prior_is_a_sum_over_output_channels() -> None:
    precision, weight = torch.diag(torch.arange(1.0, 9.0)), torch.randn(3, 2, 2, 2)
    expected = sum(-0.5 * row @ precision @ row for row in weight.flatten(1))
    torch.testing.assert_close(correlated("w", precision)({"w": weight}).float(), expected)
    with pytest.raises(InputError, match=r"'w'.*conv"):
        correlated("w", precision)({"conv": weight})


def test_a_product_adds_up() -> None:
    params = {"w": torch.ones(2)}
    assert product(gaussian(1.0), laplace(1.0))(params) == gaussian(1.0)(params) + laplace(1.0)(params)
