from functools import cache

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Laplace, Normal, StudentT
from torch.func import functional_call, jacrev
from torch.nn import functional

from shiftmatch.data import load
from shiftmatch.errors import DataNotFoundError, InputError
from shiftmatch.samplers.density import log_posterior
from shiftmatch.samplers.posterior import params_of
from shiftmatch.samplers.priors import (
    Prior,
    ShiftEmpCov,
    correlated,
    covariance,
    empcov,
    empcov_equation,
    gaussian,
    laplace,
    patch_covariance,
    patches,
    product,
    second_moment,
    student_t,
    zellner_g,
)

DIMENSION, EXAMPLES, NOISE = 4, 30, 0.5


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


def inputs(count: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.tensor([[3.0, 0, 0, 0], [1, 1, 0, 0], [0, 0.5, 0.3, 0], [0.2, 0, 0, 0.1]], dtype=torch.float64)
    return torch.randn(count, DIMENSION, generator=generator, dtype=torch.float64) @ mixing


def prior_precision(prior: Prior) -> Tensor:
    """−∇² log p(w) of a prior on one weight vector."""
    zero = torch.zeros(1, DIMENSION, dtype=torch.float64)
    curvature: Tensor = jacrev(jacrev(lambda weight: -prior({"weight": weight})))(zero)
    return curvature.reshape(DIMENSION, DIMENSION)


def test_priors_have_the_covariances_of_the_equations() -> None:
    x = inputs(EXAMPLES)
    moment = second_moment(x)
    torch.testing.assert_close(moment, sum(torch.outer(row, row) for row in x) / EXAMPLES)
    torch.testing.assert_close(covariance(x), torch.cov(x.T))
    paper = torch.linalg.inv(prior_precision(empcov_equation("weight", moment)))
    torch.testing.assert_close(paper, moment / DIMENSION)
    torch.testing.assert_close(
        torch.linalg.inv(prior_precision(zellner_g("weight", moment))), torch.linalg.inv(moment) / DIMENSION
    )


def test_released_form_has_eigenvalues_of_one_hundredth_lambda_over_one_plus_lambda() -> None:
    sigma = covariance(inputs(EXAMPLES))
    prior = torch.linalg.inv(prior_precision(empcov("weight", sigma)))
    eigenvalues = torch.linalg.eigvalsh(sigma)
    torch.testing.assert_close(torch.linalg.eigvalsh(prior), 0.01 * eigenvalues / (1 + eigenvalues))


def test_shift_empcov_with_an_isotropic_prior_has_the_same_outputs_in_distribution() -> None:
    """f = S(x) w with w ~ N(0, I/d) has the covariance J Jᵀ / d, J = ∂f/∂w; under EmpCov, f = x w."""
    moment, test = second_moment(inputs(EXAMPLES)), inputs(7, seed=1)
    layer = ShiftEmpCov(nn.Linear(DIMENSION, 1, bias=False).double(), moment)
    weight = layer.layer.weight.detach()
    jacobian = jacrev(lambda w: functional_call(layer, {"layer.weight": w}, (test,)).flatten())(weight).flatten(1)
    under_prior = test @ torch.linalg.inv(prior_precision(empcov_equation("weight", moment))) @ test.T
    torch.testing.assert_close(jacobian @ jacobian.T / DIMENSION, under_prior)


def test_shift_empcov_and_empcov_have_the_same_posterior_predictive() -> None:
    """In Bayesian linear regression the posterior is Gaussian, so its mode and curvature say everything."""
    x, test = inputs(EXAMPLES), inputs(7, seed=1)
    y = x.sum(1, keepdim=True) + torch.randn(EXAMPLES, 1, generator=torch.Generator().manual_seed(2)).double()
    moment = second_moment(x)
    plain = nn.Linear(DIMENSION, 1, bias=False).double()
    shifted = ShiftEmpCov(nn.Linear(DIMENSION, 1, bias=False).double(), moment)
    one = _predictive(plain, empcov_equation("weight", moment), x, y, test)
    other = _predictive(shifted, gaussian(float(DIMENSION)), x, y, test)
    wrong = _predictive(plain, gaussian(float(DIMENSION)), x, y, test)
    for left, right, isotropic in zip(one, other, wrong, strict=True):
        torch.testing.assert_close(left, right)
        assert (left - isotropic).abs().max() > 1e-3


def _predictive(model: nn.Module, prior: Prior, x: Tensor, y: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and covariance of the outputs for `test`, exactly, from the gradient and curvature of our log posterior."""

    def likelihood(outputs: Tensor, targets: Tensor) -> Tensor:
        return -(outputs - targets).square().sum() / (2 * NOISE**2)

    density = log_posterior(model, (x, y), prior=prior, likelihood=likelihood, micro_batch=7)
    (name,) = params_of(model)
    zero = torch.zeros(1, DIMENSION, dtype=torch.float64)

    def gradient(weight: Tensor) -> Tensor:
        return density.value_and_grad({name: weight}, torch.Generator())[1][name].flatten()

    steps = torch.eye(DIMENSION, dtype=torch.float64)
    precision = torch.stack([gradient(zero) - gradient(zero + step) for step in steps])
    mean = torch.linalg.solve(precision, gradient(zero))
    jacobian = jacrev(lambda w: functional_call(model, {name: w}, (test,)).flatten())(zero).flatten(1)
    return jacobian @ mean, jacobian @ torch.linalg.inv(precision) @ jacobian.T


def test_patches_are_the_windows_of_a_convolution_but_for_the_outermost() -> None:
    images = torch.randn(2, 3, 9, 8)
    convolution = nn.Conv2d(3, 4, 5, bias=False)
    rows = patches(images, 5)
    padded = functional.pad(images, (2, 2, 2, 2))
    expected = convolution(padded)[:, :, 1:-1, 1:-1].permute(0, 2, 3, 1).reshape(-1, 4)
    torch.testing.assert_close(rows @ convolution.weight.flatten(1).T, expected)


def test_shift_empcov_of_a_convolution_shifts_its_patches() -> None:
    images = torch.randn(2, 1, 8, 8)
    moment = second_moment(patches(images, 3, padding=0))
    convolution = nn.Conv2d(1, 2, 3)
    layer = ShiftEmpCov(convolution, moment)
    shifted = patches(images, 3, padding=0, border=0) @ layer.root
    assert convolution.bias is not None
    expected = shifted @ convolution.weight.flatten(1).T + convolution.bias
    torch.testing.assert_close(layer(images).permute(0, 2, 3, 1).reshape(-1, 2), expected)


@pytest.mark.parametrize("border", [0, 1])
def test_padding_adds_patches(border: int) -> None:
    assert len(patches(torch.zeros(1, 1, 32, 32), 5, padding=2, border=border)) == (32 - 2 * border) ** 2


@cache
def digits() -> Tensor:
    """All training images of MNIST, as the published code normalises them."""
    try:
        train = load("mnist", "train")
    except DataNotFoundError:
        pytest.skip("MNIST is not on this machine")
    return (train.images[torch.arange(len(train))] / 255 - 0.1307) / 0.3081


@pytest.mark.slow
def test_the_patch_covariance_of_mnist_is_the_published_one() -> None:
    sigma = patch_covariance(digits(), 5)
    values = torch.linalg.eigvalsh(sigma)
    inverse = torch.linalg.inv(sigma).diagonal()
    assert sigma.trace().item() == pytest.approx(27.93, abs=0.005)
    assert values[0].item() == pytest.approx(0.0245, abs=1e-4)
    assert values[-1].item() == pytest.approx(12.64, abs=0.005)
    assert inverse.min().item() == pytest.approx(5.17, abs=0.01)
    assert inverse.max().item() == pytest.approx(13.41, abs=0.01)


def test_pixels_that_never_change_need_jitter_or_a_pseudo_inverse() -> None:
    x = inputs(EXAMPLES)
    x[:, 2] = -0.424
    sigma = covariance(x)
    for prior in (empcov, empcov_equation):
        with pytest.raises(InputError, match=r"1 of 4 directions.*jitter=1e-10.*pseudo_inverse=True"):
            prior("weight", sigma)
    published = prior_precision(empcov("weight", sigma, jitter=1e-10))
    assert published[2, 2].item() == pytest.approx(100 * 1e10, rel=1e-3)
    free = prior_precision(empcov("weight", sigma, pseudo_inverse=True))
    torch.testing.assert_close(free, 100 * (torch.eye(4) + torch.linalg.pinv(sigma, hermitian=True)))
    assert free[2, 2].item() == pytest.approx(100.0)
    equation = prior_precision(empcov_equation("weight", sigma, weight_decay=7.0, pseudo_inverse=True))
    assert equation[2, 2].item() == pytest.approx(7.0)


def test_the_covariance_of_whole_digits_has_dead_pixels_and_a_prior() -> None:
    sigma = covariance(digits()[:2000].flatten(1))
    with pytest.raises(InputError, match="of 784 directions"):
        empcov("weight", sigma)
    weight = {"weight": torch.randn(2, 784, generator=torch.Generator().manual_seed(0))}
    for prior in (empcov("weight", sigma, jitter=1e-10), empcov("weight", sigma, pseudo_inverse=True)):
        assert prior(weight).isfinite()
        assert prior(weight) < 0


def test_shift_empcov_lets_nothing_through_where_the_inputs_were_always_zero() -> None:
    x = inputs(EXAMPLES)
    x[:, 2] = 0
    layer = ShiftEmpCov(nn.Linear(DIMENSION, 3, bias=False).double(), second_moment(x))
    assert layer(torch.eye(4, dtype=torch.float64)[2:3]).abs().max() < 1e-12
    assert layer(torch.eye(4, dtype=torch.float64)[0:1]).abs().max() > 1e-3
